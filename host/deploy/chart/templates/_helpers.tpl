{{- define "pintle.name" -}}
{{- if contains "pintle" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-pintle" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "pintle.account" -}}
{{- .Values.serviceAccount.name | default (include "pintle.name" .) }}
{{- end }}

{{- define "pintle.selector" -}}
app.kubernetes.io/name: pintle
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pintle.labels" -}}
{{ include "pintle.selector" . }}
app.kubernetes.io/part-of: pintle
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "pintle.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* The configuration file of the host. */ -}}
{{- define "pintle.configuration" -}}
{{- toYaml (merge (dict "apiVersion" "pintle.dev/v1alpha1" "kind" "HostConfiguration") .Values.configuration) }}
{{- end }}

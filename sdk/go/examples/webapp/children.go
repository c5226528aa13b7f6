package main

import pintle "pintle.dev/sdk"

// manager is the field manager of the applies.
const manager = "webapp-controller"

// configHash is the annotation of the Pod template with the hash of the configuration, so that another configuration is another template.
const configHash = "example.com/config-hash"

// wantedChildren are those that a valid WebApp wants.
func wantedChildren(app *WebApp, settings Settings, isHostHeld bool) (*pintle.Children, error) {
	hash, err := pintle.Hash(configOf(app))
	if err != nil {
		return nil, err
	}
	children := pintle.NewChildren(app, manager).
		Own(configMapKind, deploymentKind, serviceKind, ingressKind, autoscalerKind, disruptionBudgetKind).
		Want(configMap(app), deployment(app, hash), service(app))
	if isHostHeld {
		children.Want(ingress(app, settings))
	}
	if app.Spec.Autoscaling != nil {
		children.Want(autoscaler(app))
	}
	if app.Spec.DisruptionBudget != nil {
		children.Want(disruptionBudget(app))
	}
	return children, nil
}

// child is an object of a kind and name with the labels of the WebApp.
func child(app *WebApp, kind pintle.Kind, name string) pintle.Object {
	return pintle.Object{
		"apiVersion": kind.APIVersion(),
		"kind":       kind.Name,
		"metadata":   pintle.Object{"name": name, "labels": labels(app)},
	}
}

func labels(app *WebApp) pintle.Object {
	return pintle.Object{"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": app.Metadata.Name}
}

func configOf(app *WebApp) map[string]string {
	if app.Spec.Config == nil {
		return map[string]string{}
	}
	return app.Spec.Config
}

func configMapName(app *WebApp) string { return app.Metadata.Name + "-config" }

func configMap(app *WebApp) pintle.Object {
	object := child(app, configMapKind, configMapName(app))
	object["data"] = configOf(app)
	return object
}

func deployment(app *WebApp, hash string) pintle.Object {
	spec := pintle.Object{
		"selector": pintle.Object{"matchLabels": labels(app)},
		"template": pintle.Object{
			"metadata": pintle.Object{"labels": labels(app), "annotations": pintle.Object{configHash: hash}},
			"spec": pintle.Object{
				"containers": []pintle.Object{{
					"name":    "web",
					"image":   app.Spec.Image,
					"ports":   []pintle.Object{{"name": "http", "containerPort": or(app.Spec.Port, 8080)}},
					"envFrom": []pintle.Object{{"configMapRef": pintle.Object{"name": configMapName(app)}}},
				}},
			},
		},
	}
	// With an autoscaler, the number is the autoscaler's.
	if app.Spec.Autoscaling == nil {
		spec["replicas"] = or(app.Spec.Replicas, 1)
	}
	object := child(app, deploymentKind, app.Metadata.Name)
	object["spec"] = spec
	return object
}

func service(app *WebApp) pintle.Object {
	object := child(app, serviceKind, app.Metadata.Name)
	object["spec"] = pintle.Object{
		"selector": labels(app),
		"ports":    []pintle.Object{{"name": "http", "port": 80, "targetPort": "http"}},
	}
	return object
}

func ingress(app *WebApp, settings Settings) pintle.Object {
	backend := pintle.Object{"service": pintle.Object{"name": app.Metadata.Name, "port": pintle.Object{"name": "http"}}}
	spec := pintle.Object{
		"rules": []pintle.Object{{
			"host": app.Spec.Host,
			"http": pintle.Object{"paths": []pintle.Object{{"path": "/", "pathType": "Prefix", "backend": backend}}},
		}},
	}
	if settings.IngressClass != "" {
		spec["ingressClassName"] = settings.IngressClass
	}
	object := child(app, ingressKind, app.Metadata.Name)
	object["spec"] = spec
	return object
}

func autoscaler(app *WebApp) pintle.Object {
	wanted := app.Spec.Autoscaling
	target := pintle.Object{"type": "Utilization", "averageUtilization": or(wanted.CPUPercent, 80)}
	object := child(app, autoscalerKind, app.Metadata.Name)
	object["spec"] = pintle.Object{
		"scaleTargetRef": pintle.Object{"apiVersion": "apps/v1", "kind": "Deployment", "name": app.Metadata.Name},
		"minReplicas":    or(wanted.MinReplicas, 1),
		"maxReplicas":    wanted.MaxReplicas,
		"metrics":        []pintle.Object{{"type": "Resource", "resource": pintle.Object{"name": "cpu", "target": target}}},
	}
	return object
}

func disruptionBudget(app *WebApp) pintle.Object {
	spec := pintle.Object{"selector": pintle.Object{"matchLabels": labels(app)}}
	if number := app.Spec.DisruptionBudget.MinAvailable; number != nil {
		spec["minAvailable"] = *number
	}
	if number := app.Spec.DisruptionBudget.MaxUnavailable; number != nil {
		spec["maxUnavailable"] = *number
	}
	object := child(app, disruptionBudgetKind, app.Metadata.Name)
	object["spec"] = spec
	return object
}

/* Runs what PINTLE_EXPORT exports against cases, without WebAssembly.
 *
 *     pintle test --export cases.json
 *     cc -std=c11 -g -fsanitize=address,undefined -I SDK *.c SDK/src/?*.c SDK/testing/?*.c -lm -o cases
 *     ./cases cases.json [TEXT]
 *
 * The file holds the manifest and all cases as JSON, because C has no YAML: {"manifest": ..., "cases": [{"name", "input", "expected"}]}.
 * With a TEXT only cases run that have it in their name. The exit code is 0 if all pass. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

/* A text that outlives the run. */
static char *kept(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy == NULL) {
        abort();
    }
    return memcpy(copy, text, size);
}

static char *read_file(const char *name, size_t *length) {
    FILE *file = fopen(name, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        perror(name);
        exit(2);
    }
    *length = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(*length + 1);
    if (text == NULL || fread(text, 1, *length, file) != *length) {
        perror(name);
        exit(2);
    }
    fclose(file);
    return text;
}

typedef struct {
    char *name, *input, *expected;
} kept_case;

/* The differences between what a case should give and what it gives. */
static pintle_json *check(const char *manifest, const kept_case *one) {
    pintle_json *differences = pintle_format("[]");
    jmp_buf here;
    on_fault = &here;
    if (setjmp(here) == 0) {
        fixture of;
        const char *wrong = fixture_read(&of, pintle_parse(manifest, strlen(manifest)), pintle_parse(one->input, strlen(one->input)));
        if (wrong != NULL) {
            pintle_append(differences, pintle_format("%s", pintle_printf("input: %s", wrong)));
        } else {
            compare("", pintle_parse(one->expected, strlen(one->expected)), fixture_run(&of, pintle_exported_reconcile), differences);
        }
    } else {
        pintle_append(differences, pintle_format("%s", fault_message));
    }
    on_fault = NULL;
    return differences;
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s FILE [TEXT]\nFILE: what `pintle test --export FILE` writes. TEXT: part of the names of cases.\n", argv[0]);
        return 2;
    }
    size_t length;
    char *text = read_file(argv[1], &length);
    const pintle_json *all = pintle_parse(text, length);
    const pintle_json *cases = pintle_at(all, "cases");
    if (pintle_at(all, "manifest") == NULL || pintle_length(cases) == 0) {
        fprintf(stderr, "%s: no manifest or no cases; write it by `pintle test --export %s`\n", argv[1], argv[1]);
        return 2;
    }
    /* Each case has memory of its own, so that a sanitizer sees what is kept from one run to the next. */
    size_t n = 0, n_cases = pintle_length(cases), n_failed = 0;
    kept_case *kept_cases = calloc(n_cases, sizeof *kept_cases);
    char *manifest = kept(pintle_write(pintle_at(all, "manifest")));
    for (size_t i = 0; i < n_cases; i++) {
        const pintle_json *one = pintle_item(cases, i);
        const char *name = pintle_text(pintle_at(one, "name"), "");
        if (argc == 2 || strstr(name, argv[2]) != NULL) {
            kept_cases[n++] = (kept_case){
                kept(name), kept(pintle_write(pintle_at(one, "input"))), kept(pintle_write(pintle_at(one, "expected")))};
        }
    }
    pintle_reset();
    free(text);
    for (size_t i = 0; i < n; i++) {
        const pintle_json *differences = check(manifest, &kept_cases[i]);
        printf("%s %s\n", pintle_length(differences) == 0 ? "ok      " : "DIFFERS ", kept_cases[i].name);
        for (size_t j = 0; j < pintle_length(differences); j++) {
            printf("    %s\n", pintle_text(pintle_item(differences, j), ""));
        }
        n_failed += pintle_length(differences) > 0;
        pintle_reset();
        free(kept_cases[i].name);
        free(kept_cases[i].input);
        free(kept_cases[i].expected);
    }
    free(kept_cases);
    free(manifest);
    if (n == 0) {
        fprintf(stderr, "no case has %s in its name\n", argv[2]);
        return 2;
    }
    printf("%zu of %zu cases passed\n", n - n_failed, n);
    return n_failed > 0;
}

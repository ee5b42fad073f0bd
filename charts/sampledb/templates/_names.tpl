{{/*
A controller is spoken of by a dict {root, key}: the chart's context and the key of its block under `controllers`.
Every name is independent of the release's name: one release a cluster.
*/}}

{{/* The block of values of a controller. */}}
{{- define "sampledb.values" -}}
{{- index .root.Values.controllers .key | toYaml -}}
{{- end -}}

{{/* The controller's own word: service-publisher. */}}
{{- define "sampledb.controller" -}}
{{- kebabcase .key -}}
{{- end -}}

{{/* Its Deployment, ServiceAccount, Lease and field manager: sampledb-service-publisher. */}}
{{- define "sampledb.name" -}}
sampledb-{{ kebabcase .key }}
{{- end -}}

{{/* "true" when the controller is installed. */}}
{{- define "sampledb.enabled" -}}
{{- if (index .root.Values.controllers .key).enabled }}true{{ end -}}
{{- end -}}

{{/* metadata.name, namespace and labels of an object of a controller: dict {root, key, name?, clusterScoped?, labels?, annotations?}. */}}
{{- define "sampledb.metadata" -}}
name: {{ if .name }}{{ .name }}{{ else }}{{ include "sampledb.name" . }}{{ end }}
{{- if not .clusterScoped }}
namespace: {{ .namespace | default .root.Release.Namespace }}
{{- end }}
labels:
  {{- include "sampledb.labels" . | nindent 2 }}
{{- with .annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

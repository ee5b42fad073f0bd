{{/* The labels that select a controller's pods. They never change: a Deployment's selector is immutable. */}}
{{- define "sampledb.selectorLabels" -}}
app.kubernetes.io/name: sampledb
app.kubernetes.io/component: {{ include "sampledb.controller" . }}
{{- end -}}

{{/* The labels of everything the chart makes: dict {root, key?, labels?}. */}}
{{- define "sampledb.labels" -}}
{{- $labels := dict
  "app.kubernetes.io/name" "sampledb"
  "app.kubernetes.io/instance" .root.Release.Name
  "app.kubernetes.io/version" (.root.Chart.AppVersion | toString)
  "app.kubernetes.io/part-of" "sampledb"
  "app.kubernetes.io/managed-by" .root.Release.Service
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- if .key -}}
{{- $_ := set $labels "app.kubernetes.io/component" (include "sampledb.controller" .) -}}
{{- end -}}
{{- mergeOverwrite (deepCopy (.root.Values.commonLabels | default dict)) (deepCopy (.labels | default dict)) $labels | toYaml -}}
{{- end -}}

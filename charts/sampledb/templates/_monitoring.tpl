{{/* The Service of a controller's /metrics. */}}
{{- define "sampledb.metricsService" -}}
{{- $values := include "sampledb.values" . | fromYaml }}
{{- if and (include "sampledb.enabled" .) $values.metricsService.enabled }}
apiVersion: v1
kind: Service
metadata:
  {{- include "sampledb.metadata" (merge (dict "name" (printf "%s-metrics" (include "sampledb.name" .)) "labels" $values.metricsService.labels "annotations" $values.metricsService.annotations) .) | nindent 2 }}
spec:
  type: ClusterIP
  selector:
    {{- include "sampledb.selectorLabels" . | nindent 4 }}
  ports:
    - {name: http, port: 8080, targetPort: http, protocol: TCP}
{{- end }}
{{- end -}}

{{/*
"true" when a kind of the Prometheus operator is to be rendered: dict {root, kind, path}. Off by default; when it was
asked for and the cluster does not have it, monitoring.renderMode decides.
*/}}
{{- define "sampledb.monitorRendered" -}}
{{- if .root.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" .kind) -}}
true
{{- else if eq .root.Values.monitoring.renderMode "alwaysRender" -}}
true
{{- else if eq .root.Values.monitoring.renderMode "failIfMissing" -}}
{{- fail (printf "%s.enabled is true, but this cluster does not serve %s (monitoring.coreos.com/v1). Install the Prometheus operator first, or set monitoring.renderMode to alwaysRender (for `helm template` and Argo CD) or skipIfMissing." .path .kind) -}}
{{- end -}}
{{- end -}}

{{/* How a monitor scrapes: dict {monitor}. */}}
{{- define "sampledb.monitorEndpoint" -}}
- port: http
  path: /metrics
  {{- range $field := list "interval" "scrapeTimeout" }}
  {{- with index $.monitor $field }}
  {{ $field }}: {{ . }}
  {{- end }}
  {{- end }}
  {{- range $field := list "relabelings" "metricRelabelings" }}
  {{- with index $.monitor $field }}
  {{ $field }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
{{- end -}}

{{/* A ServiceMonitor or PodMonitor: dict {root, key, kind}. */}}
{{- define "sampledb.monitor" -}}
{{- $field := ternary "serviceMonitor" "podMonitor" (eq .kind "ServiceMonitor") }}
{{- $monitor := index (include "sampledb.values" . | fromYaml) $field }}
{{- if and (include "sampledb.enabled" .) $monitor.enabled (include "sampledb.monitorRendered" (dict "root" .root "kind" .kind "path" (printf "controllers.%s.%s" .key $field))) }}
apiVersion: monitoring.coreos.com/v1
kind: {{ .kind }}
metadata:
  {{- include "sampledb.metadata" (merge (dict "namespace" $monitor.namespace "labels" $monitor.labels "annotations" $monitor.annotations) .) | nindent 2 }}
spec:
  namespaceSelector:
    matchNames: [{{ .root.Release.Namespace }}]
  selector:
    matchLabels:
      {{- include "sampledb.selectorLabels" . | nindent 6 }}
  {{ ternary "endpoints" "podMetricsEndpoints" (eq .kind "ServiceMonitor") }}:
    {{- include "sampledb.monitorEndpoint" (dict "monitor" $monitor) | nindent 4 }}
{{- end }}
{{- end -}}

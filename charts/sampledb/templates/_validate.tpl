{{/* Values that do not fit together, each with its path. The schema has checked the rest. */}}
{{- define "sampledb.validate" -}}
{{- if has .Release.Namespace (list "kube-system" "kube-public" "kube-node-lease") -}}
{{- fail (printf "SampleDB is not installed into %s: use a namespace of its own, as in `helm install sampledb … --namespace sampledb-system --create-namespace`" .Release.Namespace) -}}
{{- end -}}
{{- range $key, $values := .Values.controllers -}}
{{- $budget := $values.podDisruptionBudget -}}
{{- if and $budget.enabled (not (kindIs "invalid" $budget.minAvailable)) (not (kindIs "invalid" $budget.maxUnavailable)) -}}
{{- fail (printf "controllers.%s.podDisruptionBudget: set minAvailable or maxUnavailable, not both" $key) -}}
{{- end -}}
{{- if and $values.serviceMonitor.enabled (not $values.metricsService.enabled) -}}
{{- fail (printf "controllers.%s.serviceMonitor.enabled needs controllers.%s.metricsService.enabled; or use podMonitor" $key $key) -}}
{{- end -}}
{{- end -}}
{{- range $version, $entry := .Values.postgres.catalog -}}
{{- if and (ne $entry.version $version) (not (hasPrefix (printf "%s." $version) $entry.version)) -}}
{{- fail (printf "postgres.catalog.%s.version is %q, which is another version" $version $entry.version) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What may reach a controller: its HTTP port, and nothing else. */}}
{{- define "sampledb.networkpolicy" -}}
{{- $values := include "sampledb.values" . | fromYaml }}
{{- if and (include "sampledb.enabled" .) $values.networkPolicy.enabled }}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "sampledb.metadata" . | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "sampledb.selectorLabels" . | nindent 6 }}
  policyTypes: [Ingress{{ if $values.networkPolicy.egress }}, Egress{{ end }}]
  ingress:
    - ports:
        - {port: http, protocol: TCP}
      {{- with $values.networkPolicy.ingressFrom }}
      from:
        {{- toYaml . | nindent 8 }}
      {{- end }}
  {{- with $values.networkPolicy.egress }}
  egress:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* The PodDisruptionBudget of a controller. */}}
{{- define "sampledb.pdb" -}}
{{- $values := include "sampledb.values" . | fromYaml }}
{{- $budget := $values.podDisruptionBudget }}
{{- if and (include "sampledb.enabled" .) $budget.enabled }}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "sampledb.metadata" . | nindent 2 }}
spec:
  {{- if not (kindIs "invalid" $budget.minAvailable) }}
  minAvailable: {{ $budget.minAvailable }}
  {{- else }}
  maxUnavailable: {{ if kindIs "invalid" $budget.maxUnavailable }}1{{ else }}{{ $budget.maxUnavailable }}{{ end }}
  {{- end }}
  unhealthyPodEvictionPolicy: {{ $budget.unhealthyPodEvictionPolicy }}
  selector:
    matchLabels:
      {{- include "sampledb.selectorLabels" . | nindent 6 }}
{{- end }}
{{- end -}}

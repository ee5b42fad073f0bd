{{/* metadata of a policy and of its binding: dict {root, name, keep}. */}}
{{- define "sampledb.policyMetadata" -}}
{{- $annotations := ternary (dict "helm.sh/resource-policy" "keep") (dict) (.keep | default false) -}}
{{- include "sampledb.metadata" (dict "root" .root "name" (printf "sampledb-%s" .name) "clusterScoped" true "annotations" $annotations) }}
{{- end -}}

{{/* The binding of a policy; with `params`, it holds for every SampleDB of the request's namespace. */}}
{{- define "sampledb.policyBinding" -}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  {{- include "sampledb.policyMetadata" . | nindent 2 }}
spec:
  policyName: sampledb-{{ .name }}
  validationActions: [Deny]
  {{- if .params }}
  paramRef:
    selector: {}
    parameterNotFoundAction: Allow
  {{- end }}
{{- end -}}

{{/* The user names of the suite's controllers, as a CEL list. */}}
{{- define "sampledb.controllerUsers" -}}
{{- $users := list -}}
{{- range $name, $_ := (.Files.Get "files/policies/owners.yaml" | fromYaml).controllers -}}
{{- $users = append $users (printf "system:serviceaccount:%s:%s" $.Release.Namespace $name) -}}
{{- end -}}
{{- $users | toJson -}}
{{- end -}}

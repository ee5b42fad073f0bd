{{/* The ServiceAccount of a controller. */}}
{{- define "sampledb.serviceaccount" -}}
{{- if include "sampledb.enabled" . }}
{{- $values := include "sampledb.values" . | fromYaml }}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "sampledb.metadata" (merge (dict "annotations" $values.serviceAccount.annotations) .) | nindent 2 }}
automountServiceAccountToken: false
{{- end }}
{{- end -}}

{{/* The generated rights of a controller: {cluster, release}. */}}
{{- define "sampledb.rights" -}}
{{- .root.Files.Get (printf "files/rbac/%s.yaml" (include "sampledb.name" .)) -}}
{{- end -}}

{{/* What a controller may do wherever there are SampleDBs. */}}
{{- define "sampledb.clusterrole" -}}
{{- if and (include "sampledb.enabled" .) .root.Values.rbac.create }}
{{- $values := include "sampledb.values" . | fromYaml }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  {{- include "sampledb.metadata" (merge (dict "clusterScoped" true) .) | nindent 2 }}
rules:
  {{- (include "sampledb.rights" . | fromYaml).cluster | toYaml | nindent 2 }}
  {{- with $values.rbac.extraRules }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "sampledb.clusterrolebinding" -}}
{{- if and (include "sampledb.enabled" .) .root.Values.rbac.create }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "sampledb.metadata" (merge (dict "clusterScoped" true) .) | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ include "sampledb.name" . }}}
subjects:
  - {kind: ServiceAccount, name: {{ include "sampledb.name" . }}, namespace: {{ .root.Release.Namespace }}}
{{- end }}
{{- end -}}

{{/* What a controller may do beside itself: its Lease. */}}
{{- define "sampledb.role" -}}
{{- if and (include "sampledb.enabled" .) .root.Values.rbac.create }}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "sampledb.metadata" . | nindent 2 }}
rules:
  {{- (include "sampledb.rights" . | fromYaml).release | toYaml | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "sampledb.rolebinding" -}}
{{- if and (include "sampledb.enabled" .) .root.Values.rbac.create }}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "sampledb.metadata" . | nindent 2 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ include "sampledb.name" . }}}
subjects:
  - {kind: ServiceAccount, name: {{ include "sampledb.name" . }}, namespace: {{ .root.Release.Namespace }}}
{{- end }}
{{- end -}}

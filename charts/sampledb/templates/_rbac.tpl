{{/* The ServiceAccount of a controller. Its pods ask for the token themselves. */}}
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

{{/* The generated rights of a controller: {clusterScoped, namespaces, release}. */}}
{{- define "sampledb.rights" -}}
{{- .root.Files.Get (printf "files/rbac/%s.yaml" (include "sampledb.name" .)) -}}
{{- end -}}

{{/*
The rules of a controller's ClusterRole: {rules}. Where only some namespaces are watched, what lies in namespaces is
granted there (sampledb.role), and the ClusterRole holds what lies in none.
*/}}
{{- define "sampledb.clusterRules" -}}
{{- $rights := include "sampledb.rights" . | fromYaml -}}
{{- $extra := (include "sampledb.values" . | fromYaml).rbac.extraRules -}}
{{- $everywhere := ternary (list) $rights.namespaces (gt (len .root.Values.watch.namespaces) 0) -}}
{{- dict "rules" (concat $everywhere $rights.clusterScoped $extra) | toYaml -}}
{{- end -}}

{{/* "true" when a controller has a ClusterRole. */}}
{{- define "sampledb.hasClusterRole" -}}
{{- if and (include "sampledb.enabled" .) .root.Values.rbac.create (include "sampledb.clusterRules" . | fromYaml).rules }}true{{ end -}}
{{- end -}}

{{- define "sampledb.clusterrole" -}}
{{- if include "sampledb.hasClusterRole" . }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  {{- include "sampledb.metadata" (merge (dict "clusterScoped" true) .) | nindent 2 }}
{{ include "sampledb.clusterRules" . }}
{{- end }}
{{- end -}}

{{- define "sampledb.clusterrolebinding" -}}
{{- if include "sampledb.hasClusterRole" . }}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  {{- include "sampledb.metadata" (merge (dict "clusterScoped" true) .) | nindent 2 }}
{{ include "sampledb.bound" (merge (dict "kind" "ClusterRole") .) }}
{{- end }}
{{- end -}}

{{/* What a controller may do beside itself (its Lease), and in each watched namespace where not all are. */}}
{{- define "sampledb.role" -}}
{{- if and (include "sampledb.enabled" .) .root.Values.rbac.create }}
{{- $rights := include "sampledb.rights" . | fromYaml }}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "sampledb.metadata" . | nindent 2 }}
rules:
  {{- $rights.release | toYaml | nindent 2 }}
{{- range .root.Values.watch.namespaces }}
{{- $here := merge (dict "namespace" . "name" (include "sampledb.watchRole" $)) $ }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "sampledb.metadata" $here | nindent 2 }}
rules:
  {{- $rights.namespaces | toYaml | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "sampledb.rolebinding" -}}
{{- if and (include "sampledb.enabled" .) .root.Values.rbac.create }}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "sampledb.metadata" . | nindent 2 }}
{{ include "sampledb.bound" (merge (dict "kind" "Role") .) }}
{{- range .root.Values.watch.namespaces }}
{{- $here := merge (dict "namespace" . "name" (include "sampledb.watchRole" $) "kind" "Role") $ }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "sampledb.metadata" $here | nindent 2 }}
{{ include "sampledb.bound" $here }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "sampledb.watchRole" -}}
{{- include "sampledb.name" . -}}-watch
{{- end -}}

{{/* roleRef and subjects: dict {root, key, kind, name?}. */}}
{{- define "sampledb.bound" -}}
{{- $account := include "sampledb.name" . -}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ .kind }}, name: {{ .name | default $account }}}
subjects:
  - {kind: ServiceAccount, name: {{ $account }}, namespace: {{ .root.Release.Namespace }}}
{{- end -}}

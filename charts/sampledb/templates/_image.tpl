{{/* The image with the controllers, the agent and the runner: registry/repository:tag@digest. */}}
{{- define "sampledb.image" -}}
{{- $image := .root.Values.image -}}
{{- $registry := .root.Values.global.imageRegistry | default $image.registry -}}
{{- with $registry }}{{ . }}/{{ end -}}
{{- $image.repository }}:{{ $image.tag | default .root.Chart.AppVersion -}}
{{- with $image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/* An image of the catalogue: dict {root, image}. `global.imageRegistry` stands before one that names no registry. */}}
{{- define "sampledb.catalogImage" -}}
{{- $first := splitList "/" .image | first -}}
{{- $named := and (contains "/" .image) (or (contains "." $first) (contains ":" $first) (eq $first "localhost")) -}}
{{- with .root.Values.global.imageRegistry | default .root.Values.image.registry }}{{ if not $named }}{{ . }}/{{ end }}{{ end -}}
{{- .image -}}
{{- end -}}

{{/* What the controllers' pods pull images with. */}}
{{- define "sampledb.imagePullSecrets" -}}
{{- with concat (.root.Values.global.imagePullSecrets | default list) (.root.Values.imagePullSecrets | default list) | uniq }}
imagePullSecrets:
  {{- range . }}
  - name: {{ if kindIs "map" . }}{{ .name }}{{ else }}{{ . }}{{ end }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* A pod of `helm test` that reads a controller's /metrics through its Service: dict {root, key}. */}}
{{- define "sampledb.testPod" -}}
{{- $values := include "sampledb.values" . | fromYaml }}
{{- $scaledToZero := and (not (kindIs "invalid" $values.replicas)) (eq (int $values.replicas) 0) }}
{{- if and (include "sampledb.enabled" .) $values.metricsService.enabled (not $scaledToZero) }}
{{- $first := index .root.Values.postgres.catalog (keys .root.Values.postgres.catalog | sortAlpha | first) }}
apiVersion: v1
kind: Pod
metadata:
  {{- include "sampledb.metadata" (merge (dict "name" (printf "%s-test" (include "sampledb.name" .)) "annotations" (dict "helm.sh/hook" "test" "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded")) (omit . "key")) | nindent 2 }}
spec:
  restartPolicy: Never
  activeDeadlineSeconds: 120
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- with include "sampledb.imagePullSecrets" . | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: metrics
      image: {{ include "sampledb.catalogImage" (dict "root" .root "image" (.root.Values.test.image | default $first.image)) | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      command: [bash, -c]
      args:
        - |
          host={{ include "sampledb.name" . }}-metrics.{{ .root.Release.Namespace }}.svc
          for try in {1..60}; do
            if exec 3<>"/dev/tcp/$host/8080" && printf 'GET /metrics HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$host" >&3; then
              answer=$(cat <&3)
              if [[ $answer == "HTTP/1.1 200"* && $answer == *controller_runtime_reconcile_total* ]]; then
                echo "$host answers with its metrics"
                exit 0
              fi
            fi
            sleep 1
          done
          echo "$host did not answer with its metrics; its last answer was: ${answer:0:500}"
          exit 1
      resources:
        requests: {cpu: 10m, memory: 16Mi}
        limits: {memory: 64Mi}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
{{- end }}
{{- end -}}

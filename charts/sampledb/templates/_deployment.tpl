{{/* The Deployment of a controller: dict {root, key, args?}. */}}
{{- define "sampledb.deployment" -}}
{{- if include "sampledb.enabled" . }}
{{- $values := include "sampledb.values" . | fromYaml }}
{{- $root := .root }}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "sampledb.metadata" (merge (dict "labels" $values.labels "annotations" $values.annotations) .) | nindent 2 }}
spec:
  {{- /* Left out unless it was set: whoever scales with `kubectl scale` keeps that over an upgrade. */}}
  {{- if not (kindIs "invalid" $values.replicas) }}
  replicas: {{ $values.replicas }}
  {{- end }}
  revisionHistoryLimit: {{ $values.revisionHistoryLimit }}
  {{- with $values.updateStrategy }}
  strategy:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "sampledb.selectorLabels" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "sampledb.labels" (merge (dict "labels" $values.podLabels) .) | nindent 8 }}
      annotations:
        kubectl.kubernetes.io/default-container: controller
        {{- with $values.podAnnotations }}
        {{- tpl (toYaml .) $root | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "sampledb.name" . }}
      automountServiceAccountToken: true
      terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
      enableServiceLinks: false
      {{- with include "sampledb.imagePullSecrets" . | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- with $values.podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $values.runtimeClassName }}
      runtimeClassName: {{ . }}
      {{- end }}
      {{- if not (kindIs "invalid" $values.hostUsers) }}
      hostUsers: {{ $values.hostUsers }}
      {{- end }}
      {{- range $field := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "dnsConfig" }}
      {{- with index $values $field }}
      {{ $field }}:
        {{- tpl (toYaml .) $root | nindent 8 }}
      {{- end }}
      {{- end }}
      containers:
        - name: controller
          image: {{ include "sampledb.image" . | quote }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          command: [{{ include "sampledb.name" . }}]
          args:
            - {{ printf "--cluster-domain=%s" .root.Values.clusterDomain | quote }}
            {{- with .root.Values.watch.namespaces }}
            - {{ printf "--watch-namespaces=%s" (join "," .) | quote }}
            {{- end }}
            {{- range .args }}
            - {{ . | quote }}
            {{- end }}
            {{- range $values.extraArgs }}
            - {{ tpl . $root | quote }}
            {{- end }}
          env:
            - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
            - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
            - {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
            - {name: LOG_LEVEL, value: {{ $values.logLevel | quote }}}
            {{- /* One heap for all threads: glibc's heap a thread keeps what bursts left in each. */}}
            - {name: MALLOC_ARENA_MAX, value: "1"}
            {{- with $values.extraEnv }}
            {{- tpl (toYaml .) $root | nindent 12 }}
            {{- end }}
          {{- with $values.extraEnvFrom }}
          envFrom:
            {{- tpl (toYaml .) $root | nindent 12 }}
          {{- end }}
          ports:
            - {name: http, containerPort: 8080, protocol: TCP}
          startupProbe:
            httpGet: {path: /livez, port: http}
            periodSeconds: 1
            failureThreshold: 60
          livenessProbe:
            httpGet: {path: /livez, port: http}
            periodSeconds: 10
            timeoutSeconds: 3
            failureThreshold: 6
          readinessProbe:
            httpGet: {path: /readyz, port: http}
            periodSeconds: 5
            timeoutSeconds: 3
            failureThreshold: 3
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          {{- with $values.securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $values.extraVolumeMounts }}
          volumeMounts:
            {{- tpl (toYaml .) $root | nindent 12 }}
          {{- end }}
      {{- with $values.extraVolumes }}
      volumes:
        {{- tpl (toYaml .) $root | nindent 8 }}
      {{- end }}
{{- end }}
{{- end -}}

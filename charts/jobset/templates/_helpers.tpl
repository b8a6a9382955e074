{{- /* 28 characters and the longest suffix are the 63 that the name of a Service may have. */ -}}
{{- define "jobset.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 28 | trimSuffix "-" }}
{{- end }}

{{- define "jobset.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $full .Values.fullnameOverride | trunc 28 | trimSuffix "-" }}
{{- end }}

{{- /* What selectors are made of: never who manages, so that another manager can take the objects over. */ -}}
{{- define "jobset.ownLabels" -}}
app.kubernetes.io/name: {{ include "jobset.name" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "jobset.labels" -}}
{{ include "jobset.ownLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "jobset.selectorLabels" -}}
{{ include "jobset.ownLabels" . }}
control-plane: controller-manager
{{- end }}

{{- define "jobset.podLabels" -}}
{{ include "jobset.labels" . }}
control-plane: controller-manager
{{- end }}

{{- define "jobset.webhookPort" -}}
{{- dig "webhook" "port" 9443 .Values.managerConfiguration | int }}
{{- end }}

{{- define "jobset.uiHosts" -}}
{{- range .Values.ui.hosts }}
- {{ printf "--allow-host=%s" . | quote }}
{{- end }}
{{- end }}

{{- define "jobset.featureGates" -}}
{{- $made := ternary (dict "JobSetPolicies" true) (dict) .Values.jobSetPolicies.enable }}
{{- mergeOverwrite $made (default dict .Values.featureGates) | toYaml }}
{{- end }}

{{- define "jobset.configuration" -}}
{{- $made := include "jobset.madeConfiguration" . | fromYaml }}
{{- mergeOverwrite $made .Values.managerConfiguration | toYaml }}
{{- end }}

{{- define "jobset.optionalConfiguration" }}
{{- if or .Values.featureGates .Values.jobSetPolicies.enable }}
featureGates:
  {{- include "jobset.featureGates" . | nindent 2 }}
{{- end }}
{{- if and .Values.jobSetPolicies.enable .Values.jobSetPolicies.reports }}
policies:
  reports: true
{{- end }}
{{- if or .Values.lookUp.configMaps .Values.lookUp.secrets }}
childDryRun:
  lookUp:
  {{- if .Values.lookUp.configMaps }}
  - ConfigMaps
  {{- end }}
  {{- if .Values.lookUp.secrets }}
  - Secrets
  {{- end }}
{{- end }}
{{- if .Values.tls }}
tls:
  {{- toYaml .Values.tls | nindent 2 }}
{{- end }}
{{- end }}

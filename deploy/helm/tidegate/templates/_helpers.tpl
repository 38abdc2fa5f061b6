{{- define "tidegate.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 53 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "tidegate.selector" -}}
app.kubernetes.io/name: tidegate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tidegate.labels" -}}
{{ include "tidegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{- define "tidegate.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The entries of the Secret that is mounted, separated by commas. */}}
{{- define "tidegate.secretEntries" -}}
{{- if .Values.existingSecret.name -}}
{{ join "," .Values.existingSecret.entries }}
{{- else -}}
{{- $entries := list }}
{{- if .Values.secrets.secret }}{{ $entries = append $entries "secret" }}{{ end }}
{{- if .Values.secrets.storePassword }}{{ $entries = append $entries "store-password" }}{{ end }}
{{- if .Values.secrets.adminTokens }}{{ $entries = append $entries "admin-tokens" }}{{ end }}
{{- join "," $entries }}
{{- end }}
{{- end }}

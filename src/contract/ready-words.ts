/** What GET /v1/ready says of the service. */
export const notReadyReasons = [
  'buffer_unavailable',
  'disk_full',
  'metadata_unreachable',
  'shutting_down',
  'not_in_cluster',
] as const
export type NotReadyReason = (typeof notReadyReasons)[number]

/**
 * What a disk has cost, or may, that delivery was left out on purpose, and that the certificate of a listener ends within two
 * days or could not be replaced; the service takes records all the same.
 */
export const readyWarnings = [
  'segments_damaged',
  'segments_missing',
  'messages_lost',
  'safe_mode',
  'tls_certificate_expires',
  'tls_certificate_rejected',
] as const
export type ReadyWarning = (typeof readyWarnings)[number]

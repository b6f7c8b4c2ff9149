/** The reasons and warnings that GET /v1/ready reports. */
export const notReadyReasons = [
  'buffer_unavailable',
  'disk_full',
  'metadata_unreachable',
  'shutting_down',
  'not_in_cluster',
] as const
export type NotReadyReason = (typeof notReadyReasons)[number]

/**
 * A disk lost messages or may have, delivery was turned off on purpose, or the certificate of a listener expires
 * within two days or could not be replaced. The service accepts records all the same.
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

/** What GET /v1/ready says of the service. */
export const notReadyReasons = [
  'buffer_unavailable',
  'disk_full',
  'metadata_unreachable',
  'shutting_down',
  'not_in_cluster',
] as const
export type NotReadyReason = (typeof notReadyReasons)[number]

/** What a disk has cost, or may, and that delivery was left out on purpose; the service takes records all the same. */
export const readyWarnings = ['segments_damaged', 'segments_missing', 'messages_lost', 'safe_mode'] as const
export type ReadyWarning = (typeof readyWarnings)[number]

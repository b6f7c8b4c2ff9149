/**
 * The reasons and warnings that GET /v1/ready reports, with their explanations. Each text continues a sentence and is
 * the same in terminals and pages.
 */
export const notReadyReasons = {
  buffer_unavailable: 'the buffer accepts no records; requests get 503',
  disk_full: 'the disk is full: free some space, or lower `buffer.max_bytes`',
  metadata_unreachable: 'the metadata cannot be read: see the log',
  shutting_down: 'the service is shutting down',
  not_in_cluster:
    'this node is disconnected from its cluster and rejects requests until it reconnects; other nodes deliver its pipes',
} as const
export type NotReadyReason = keyof typeof notReadyReasons

/** Conditions in which the service still accepts records. */
export const readyWarnings = {
  segments_damaged: 'parts of the buffer are damaged and wait to be repaired: `pipectl doctor` lists them',
  segments_missing: 'parts of the buffer are missing: `pipectl verify` lists them',
  messages_lost: 'the disk has lost acknowledged messages: the log and the lanes say how many',
  safe_mode: 'the service was started with `--safe`: nothing is delivered until it is started without it',
  tls_certificate_expires:
    'the certificate of a listener has expired, or expires within two days: `pipectl doctor` says which',
  tls_certificate_rejected:
    'a new certificate cannot be used, and the previous one is served: `pipectl doctor` says why',
} as const
export type ReadyWarning = keyof typeof readyWarnings

export const notReadyNames = Object.keys(notReadyReasons) as NotReadyReason[]
export const readyWarningNames = Object.keys(readyWarnings) as ReadyWarning[]

/** The explanation for a name. A newer daemon can report unknown names; they are shown unchanged. */
export function readyWords(name: string): string {
  const words: Readonly<Record<string, string>> = { ...notReadyReasons, ...readyWarnings }
  return words[name] ?? name
}

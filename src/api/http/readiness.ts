/** Whether the service is ready, and which data a damaged disk has cost (docs/dev/contract.md#health-and-readiness). */
import type { NotReadyReason, ReadyWarning } from '../../contract/ready-words.ts'
import type { Logger } from '../../platform/log.ts'
import type { ListenerCertificate } from '../tls/listener-certificate.ts'

/** The damage found since the daemon started. */
export interface Damage {
  damagedSegments: number
  missingSegments: number
  /** The number of acknowledged messages that are missing, at the end of the log or within it. */
  lostMessages: number
}

export interface ReadinessSources {
  /** True while the buffer rejects appends. */
  isBufferRejecting(): Promise<boolean>
  /** True while the buffer rejects appends because the disk is full. */
  isDiskFull(): Promise<boolean>
  /** The damage that the buffer has found. */
  damage(): Promise<Damage>
  /** Rejects when metadata cannot be read. */
  readMetadata(): Promise<unknown>
  isStopping(): boolean
  /** False: this node could not renew its lease in time and accepts nothing. */
  isInCluster(): boolean
  /** Started with `serve --safe`: nothing is delivered. */
  isSafe: boolean
  /** The certificates of the listeners that speak TLS. */
  certificates?: readonly Pick<ListenerCertificate, 'expiresSoon' | 'rejection'>[]
  log: Logger
}

/** The service is ready if there are no reasons. */
export async function readiness(
  sources: ReadinessSources,
): Promise<{ reasons: NotReadyReason[]; warnings: ReadyWarning[] }> {
  const reasons = await notReadyReasons(sources)
  return { reasons, warnings: warningsOf(await sources.damage(), sources) }
}

async function notReadyReasons(sources: ReadinessSources): Promise<NotReadyReason[]> {
  const reasons: NotReadyReason[] = []
  if (await sources.isBufferRejecting()) reasons.push('buffer_unavailable')
  if (await sources.isDiskFull()) reasons.push('disk_full')
  try {
    await sources.readMetadata()
  } catch (error) {
    sources.log.error({ err: error }, 'metadata.unreachable')
    reasons.push('metadata_unreachable')
  }
  if (sources.isStopping()) reasons.push('shutting_down')
  if (!sources.isInCluster()) reasons.push('not_in_cluster')
  return reasons
}

function warningsOf(
  { damagedSegments, missingSegments, lostMessages }: Damage,
  { isSafe, certificates = [] }: ReadinessSources,
): ReadyWarning[] {
  const warnings: ReadyWarning[] = []
  if (damagedSegments > 0) warnings.push('segments_damaged')
  if (missingSegments > 0) warnings.push('segments_missing')
  if (lostMessages > 0) warnings.push('messages_lost')
  if (isSafe) warnings.push('safe_mode')
  if (certificates.some(({ expiresSoon }) => expiresSoon)) warnings.push('tls_certificate_expires')
  if (certificates.some(({ rejection }) => rejection !== null)) warnings.push('tls_certificate_rejected')
  return warnings
}

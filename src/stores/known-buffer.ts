import { current } from '../contract/epochs.ts'
import type { KnownBuffer } from '../log/buffer.ts'
import type { Metadata } from '../metadata/store.ts'

/** Returns the facts about the buffer that metadata stores: its identity, and the greatest seq that was assigned. */
export async function knownBuffer(metadata: Metadata): Promise<Required<KnownBuffer>> {
  const { dataDirId, epochs } = await metadata.identity()
  const { epoch, first_seq: nextSeqAtLeast } = current(epochs)
  return { identity: { dataDirId, epoch }, knownSeq: await metadata.knownSeq(), nextSeqAtLeast }
}

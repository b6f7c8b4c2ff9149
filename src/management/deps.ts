/** What the use cases of management work with. */
import type { DestinationType } from '../contract/destination.ts'
import type { Delivery } from '../delivery/delivery.ts'
import type { Directory } from '../ingest/directory.ts'
import type { IngestCounts, Metadata } from '../metadata/store.ts'

export interface ManagementDeps {
  metadata: Metadata
  delivery: Delivery
  directory: Directory
  /** The newest committed seq of the buffer: where a destination that starts "now" begins. */
  headSeq: () => number
  /** The egress policy's word on a config that is about to be saved: null, or why it is refused. */
  checkTarget: (type: DestinationType, config: Record<string, unknown>) => string | null
  now: () => number
  /** What ingest has counted but not yet written to metadata; without it the roll-ups alone are shown. */
  pendingUsage?: () => readonly IngestCounts[]
}

/**
 * The use cases of /v1 for one workspace, by operationId: plain functions without HTTP types. Every one takes the
 * workspace of the caller's key first; what belongs to another workspace does not exist. They answer the success body
 * and throw ApiError. A change is answered once it is durable and both delivery and the directory know of it.
 */
import type { DestinationType } from '../contract/destination.ts'
import type { Delivery } from '../delivery/delivery.ts'
import type { Directory } from '../ingest/directory.ts'
import type { IngestCounts, Metadata } from '../metadata/store.ts'
import { apiKeyUseCases } from './api-keys.ts'
import { destinationUseCases } from './destinations.ts'
import { laneUseCases } from './lanes.ts'
import { limitsUseCases } from './limits.ts'
import { originUseCases } from './origins.ts'
import { pipeUseCases } from './pipes.ts'

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

export type Management = ReturnType<typeof openManagement>

export function openManagement(deps: ManagementDeps) {
  const { metadata, delivery, directory } = deps
  /** Nothing is answered before both hot paths see the change. */
  const announce = async (pipeId: string): Promise<void> => {
    await Promise.all([delivery.refresh(pipeId), directory.refreshPipe(pipeId)])
  }
  return {
    ...pipeUseCases({ ...deps, announce }),
    ...destinationUseCases({ ...deps, announce }),
    ...laneUseCases({ metadata, delivery }),
    ...limitsUseCases({ metadata, announce }),
    ...originUseCases({ metadata, announce }),
    ...apiKeyUseCases({ metadata, directory }),
    async getHealth() {
      return { status: 'ok', timestamp: new Date(deps.now()).toISOString() }
    },
  }
}

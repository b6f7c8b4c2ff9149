/**
 * The use cases of /v1 for one workspace, by operationId: plain functions without HTTP types. Every one takes the
 * workspace of the caller's key first; what belongs to another workspace does not exist. They answer the success body
 * and throw ApiError. A change is answered once it is durable and both delivery and the directory know of it.
 */
import { apiKeyUseCases } from './api-keys.ts'
import type { ManagementDeps } from './deps.ts'
import { destinationUseCases } from './destinations.ts'
import { laneUseCases } from './lanes.ts'
import { limitsUseCases } from './limits.ts'
import { originUseCases } from './origins.ts'
import { pipeUseCases } from './pipes.ts'

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

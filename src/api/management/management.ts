/**
 * The use cases of /v1 by operationId: plain functions without HTTP types that take a checked request. For them,
 * resources of other workspaces do not exist. A change returns once it is durable and both delivery and the directory
 * have seen it.
 */
import { alertUseCases } from './alerts.ts'
import { apiKeyUseCases } from './api-keys.ts'
import { attemptUseCases } from './attempts.ts'
import { auditUseCases } from './audit.ts'
import type { UseCases } from './call.ts'
import type { ManagementDeps, PublishChange } from './deps.ts'
import { destinationUseCases } from './destinations.ts'
import { driftUseCases } from './drift.ts'
import { laneUseCases } from './lanes.ts'
import { latencyUseCases } from './latency.ts'
import { limitsUseCases } from './limits.ts'
import { messageUseCases } from './messages.ts'
import { originUseCases } from './origins.ts'
import { overviewUseCases } from './overview.ts'
import { parkedUseCases } from './parked.ts'
import { pipeUseCases } from './pipes.ts'
import { tableInferenceUseCases } from './table-inference.ts'
import { transformTrialUseCases } from './transform-trials.ts'
import { usageUseCases } from './usage.ts'
import { userUseCases } from './users.ts'

export function openManagement(deps: ManagementDeps): UseCases {
  const { metadata, changes } = deps
  const publishChange: PublishChange = (pipeId) => changes.publish({ pipeId })
  return {
    ...pipeUseCases({ ...deps, publishChange }),
    ...destinationUseCases({ ...deps, publishChange }),
    ...tableInferenceUseCases(deps),
    ...transformTrialUseCases(deps),
    ...driftUseCases(deps),
    ...attemptUseCases(deps),
    ...latencyUseCases(deps),
    ...laneUseCases(deps),
    ...parkedUseCases(deps),
    ...limitsUseCases({ metadata, publishChange }),
    ...originUseCases({ metadata, publishChange }),
    ...apiKeyUseCases(deps),
    ...userUseCases(deps),
    ...auditUseCases(deps),
    ...alertUseCases(deps),
    ...messageUseCases(deps),
    ...overviewUseCases(deps),
    ...usageUseCases(deps),
  }
}

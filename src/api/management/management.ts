/**
 * The use cases of /v1 by operationId: plain functions without HTTP types that take a checked request. For them,
 * resources of other workspaces do not exist. A change returns once it is durable and both delivery and the directory
 * have seen it.
 */
import { alertUseCases } from './alerts.ts'
import { apiKeyUseCases } from './api-keys.ts'
import { auditUseCases } from './audit.ts'
import type { UseCases } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { destinationUseCases } from './destinations.ts'
import { laneViewUseCases } from './lane-views.ts'
import { laneUseCases } from './lanes.ts'
import { latencyUseCases } from './latency.ts'
import { messageUseCases } from './messages.ts'
import { overviewUseCases } from './overview.ts'
import { parkedUseCases } from './parked.ts'
import { pipeParkedUseCases } from './pipe-parked.ts'
import { pipeSettingUseCases, pipeUseCases } from './pipes.ts'
import { privacyUseCases } from './privacy.ts'
import { replayUseCases } from './replays.ts'
import { schemaUseCases } from './schemas.ts'
import { tableInferenceUseCases } from './table-inference.ts'
import { tableQueryUseCases } from './table-queries.ts'
import { transformTrialUseCases } from './transform-trials.ts'
import { usageUseCases } from './usage.ts'
import { userUseCases } from './users.ts'

export function openManagement(deps: ManagementDeps): UseCases {
  return {
    ...pipeUseCases(deps),
    ...pipeSettingUseCases(deps),
    ...destinationUseCases(deps),
    ...schemaUseCases(deps),
    ...tableInferenceUseCases(deps),
    ...tableQueryUseCases(deps),
    ...transformTrialUseCases(deps),
    ...laneViewUseCases(deps),
    ...latencyUseCases(deps),
    ...laneUseCases(deps),
    ...parkedUseCases(deps),
    ...pipeParkedUseCases(deps),
    ...replayUseCases(deps),
    ...apiKeyUseCases(deps),
    ...userUseCases(deps),
    ...privacyUseCases(deps),
    ...auditUseCases(deps),
    ...alertUseCases(deps),
    ...messageUseCases(deps),
    ...overviewUseCases(deps),
    ...usageUseCases(deps),
  }
}

/** Reads the audit log: every change, and the user who made it. `management/` serves it. */
import { auditParameters } from './audit.ts'
import { everyManaged, type Operation } from './operation.ts'
import { at } from './operation-paths.ts'
import { resourceLimits } from './resource-limits.ts'
import { responseBodies } from './responses.ts'

export const auditOperations = [
  {
    ...at('listAudit'),
    area: 'management',
    summary: 'List the changes of the workspace and who made them, newest first',
    description: `Entries are kept for ${resourceLimits.auditDays} days, at most ${resourceLimits.auditEntriesPerWorkspace} per workspace. An entry and its change are stored together or not at all.`,
    auth: 'key',
    needs: 'manage',
    boundKeys: 'its_part',
    parameters: auditParameters,
    success: { status: 200, description: 'The entries', schema: responseBodies.auditList },
    errors: ['validation_error', ...everyManaged],
  },
] as const satisfies readonly Operation[]

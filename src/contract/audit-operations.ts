/** Reads the audit log: every change, and the user who made it. `management/` serves it. */
import { AuditList, auditParameters } from './audit.ts'
import { everyManaged, managed, type Operation, ok } from './operation.ts'
import { resourceLimits } from './resource-limits.ts'

export const auditOperations = [
  {
    ...managed('listAudit', 'its_part'),
    summary: 'List the changes of the workspace and who made them, newest first',
    description: `Entries are kept for ${resourceLimits.auditDays} days, at most ${resourceLimits.auditEntriesPerWorkspace} per workspace. An entry and its change are stored together or not at all.`,
    needs: 'manage',
    parameters: auditParameters,
    success: ok('The entries', AuditList),
    errors: ['validation_error', ...everyManaged],
  },
] as const satisfies readonly Operation[]

/** The audit log: who changed what, when, and from where. */
import Type, { type Static } from 'typebox'
import { moment, nullable, pageSize, positive, query, string, timestamp } from './schema-parts.ts'

const state = (description: string) => nullable(Type.Record(Type.String(), Type.Unknown(), { description }))

/** The number of entries in one response: the default and the maximum. */
export const auditPage = { default: 50, max: 500 } as const

/** The user, key or command that did something. */
export const AuditActor = Type.Object({
  kind: Type.Enum(['key', 'user', 'local'], {
    description:
      'A key, a signed-in user, or `local`: a command on the data directory, or the service itself (name `pipectl`).',
  }),
  id: nullable(string('The id of the key or the user; null: a command.')),
  name: nullable(string('The name at that time: of the key, the user, or the user of the operating system.')),
})
export type AuditActor = Static<typeof AuditActor>

export const AuditEntry = Type.Object({
  audit_id: positive('Grows by one with each entry of the workspace.'),
  audit_ts: timestamp(),
  operation: string(
    'The operationId; `signIn`, `signInFailed`, `setUp` and `changeOwnPassword` come from the dashboard, `createWorkspace` from the command.',
  ),
  actor: AuditActor,
  address: nullable(
    string('The address of the client, also behind trusted proxies; null: a command on the machine.'),
  ),
  resource_id: nullable(Type.String()),
  pipe_id: nullable(string('The pipe itself, or the pipe of the resource.')),
  before: state(
    'The changed fields before the change; null: the resource was created. Secrets are redacted; `after.secrets_changed` names the ones that changed.',
  ),
  after: state(
    'The changed fields after the change; null: the resource was removed. For an operation on a lane: its result, or `status: requested` if the daemon ended before it was known.',
  ),
})
export type AuditEntry = Static<typeof AuditEntry>

export const AuditList = Type.Object({
  audit: Type.Array(AuditEntry, { description: 'Newest first.' }),
  next: nullable(Type.Integer({ description: '`after` of the next page; null: this is the last one.' })),
})
export type AuditList = Static<typeof AuditList>

export const auditParameters = [
  query('limit', pageSize(auditPage), 'The number of entries in one response.'),
  query('after', positive(), 'Only entries older than the one with this audit_id.'),
  query('operation', Type.String(), 'Only entries of this operation.'),
  query(
    'resource_id',
    Type.String(),
    'Only entries of this pipe, destination, key or user. A pipe includes everything that belongs to it.',
  ),
  query('since', moment, 'Only entries from this time on.'),
] as const

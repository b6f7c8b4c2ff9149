/** The audit log: who changed what, when, and from where. */
import Type, { type Static } from 'typebox'
import { moment, nullable } from './destinations/fields.ts'

const state = (description: string) => nullable(Type.Record(Type.String(), Type.Unknown(), { description }))

/** How many entries one response has: the default, and the most. */
export const auditPage = { default: 50, max: 500 } as const

export const AuditEntry = Type.Object({
  audit_id: Type.Integer({ minimum: 1, description: 'Grows by one from entry to entry of the workspace.' }),
  audit_ts: Type.String({ format: 'date-time' }),
  operation: Type.String({
    description:
      'The operationId; `signIn`, `signInFailed`, `setUp` and `changeOwnPassword` are of the dashboard, `createWorkspace` of the command.',
  }),
  actor: Type.Object({
    kind: Type.Enum(['key', 'user', 'local'], {
      description: 'A key, a person who is signed in, or a command on the data directory.',
    }),
    id: nullable(Type.String({ description: 'Of the key or the user; null: a command.' })),
    name: nullable(
      Type.String({ description: 'As it was then: of the key, the user or the user of the system.' }),
    ),
  }),
  address: nullable(
    Type.String({
      description: 'Of the client, behind trusted proxies too; null: a command on the machine.',
    }),
  ),
  resource_id: nullable(Type.String()),
  pipe_id: nullable(Type.String({ description: 'The pipe that it is or belongs to.' })),
  before: state(
    'Null: it was made. Of a change what is different. Secrets are redacted; which of them are others, `after.secrets_changed` says.',
  ),
  after: state(
    'Null: it was removed. Of an operation on a lane its result; `status: requested` where the daemon ended before it was known.',
  ),
})
export type AuditEntry = Static<typeof AuditEntry>

export const AuditList = Type.Object({
  audit: Type.Array(AuditEntry, { description: 'Newest first.' }),
  next: nullable(Type.Integer({ description: '`after` of the next page; null: this is the last one.' })),
})
export type AuditList = Static<typeof AuditList>

export const auditParameters = [
  {
    in: 'query',
    name: 'limit',
    schema: Type.Integer({ minimum: 1, maximum: auditPage.max, default: auditPage.default }),
    description: 'Entries of one response.',
  },
  {
    in: 'query',
    name: 'after',
    schema: Type.Integer({ minimum: 1 }),
    description: 'Entries that are older than the one with this audit_id.',
  },
  { in: 'query', name: 'operation', schema: Type.String(), description: 'Those of this operation.' },
  {
    in: 'query',
    name: 'resource_id',
    schema: Type.String(),
    description:
      'Those of this pipe, destination, key or user. A pipe has those of everything that belongs to it.',
  },
  {
    in: 'query',
    name: 'since',
    schema: moment,
    description: 'Those from this moment on.',
  },
] as const

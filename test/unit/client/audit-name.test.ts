import t from 'tap'
import { changeOf, resourceName } from '../../../src/apps/client/audit-name.ts'
import type { AuditEntry } from '../../../src/contract/audit.ts'
import type { Overview } from '../../../src/contract/overview.ts'

const lanes = [{ destination_id: 'd1', destination_name: 'warehouse' }]
const server_ts = '2026-01-01T00:00:30Z'
const pipes = [{ pipe_id: 'p1', pipe_name: 'orders', lanes }]
const overview = { server_ts, pipes } as unknown as Overview

function entry(given: Partial<AuditEntry>): AuditEntry {
  return {
    ...{ audit_id: 1, audit_ts: '2026-01-01T00:00:00Z', operation: 'x', address: null },
    ...{ actor: { kind: 'local', id: null, name: null }, resource_id: null, pipe_id: null },
    ...{ before: null, after: null },
    ...given,
  }
}

t.test('an entry is about what people call it, whether it is still there or not', async (t) => {
  const cases: [Partial<AuditEntry>, string][] = [
    [{ resource_id: 'd1', pipe_id: 'p1', after: { status: 'skipped' } }, 'orders/warehouse'],
    [{ resource_id: 'd2', pipe_id: 'p1', before: { destination_name: 'old' } }, 'orders/old'],
    [{ resource_id: 'd3', pipe_id: 'p9', before: { destination_name: 'old' } }, '(deleted)/old'],
    [{ resource_id: 'p1', pipe_id: 'p1', before: {}, after: { pipe_status: 'paused' } }, 'orders'],
    [{ resource_id: 'p9', pipe_id: 'p9', before: { pipe_name: 'gone' } }, 'gone'],
    [{ resource_id: 'k1', after: { api_key_name: 'shop' } }, 'shop'],
    [{ resource_id: 'u1', after: { user_email: 'ada@example.com' } }, 'ada@example.com'],
    [{ resource_id: 'w1', after: { workspace_name: 'default' } }, 'default'],
    [{ resource_id: 'x1' }, 'x1'],
    [{}, '-'],
  ]
  for (const [given, name] of cases) t.equal(resourceName(entry(given), overview), name)
  t.equal(
    resourceName(entry({ resource_id: 'd1', pipe_id: 'p1' }), null),
    'd1',
    'what nobody knows is its id',
  )
})

t.test('a destination of a pipe that the overview does not know yet is not called deleted', async (t) => {
  const created = entry({ resource_id: 'd9', pipe_id: 'p9', after: { destination_name: 'new' } })
  t.equal(resourceName(created, overview), '(deleted)/new', 'the overview is much newer')
  t.equal(resourceName({ ...created, audit_ts: '2026-01-01T00:00:29Z' }, overview), 'new')
  t.equal(resourceName({ ...created, audit_ts: '2026-01-01T00:00:31Z' }, overview), 'new')
  t.equal(resourceName(created, null), 'new', 'it is not loaded yet')
})

t.test('what changed: the fields, or one word', async (t) => {
  const cases: [Partial<AuditEntry>, string][] = [
    [{ before: { a: 1, b: 1 }, after: { a: 2, b: 2 } }, 'a, b'],
    [{ operation: 'deletePipe', before: { pipe_name: 'gone' } }, 'removed'],
    [{ operation: 'skipBlockingMessage', after: { status: 'skipped' } }, 'skipped'],
    [{ operation: 'createPipe', after: { pipe_name: 'orders' } }, 'created'],
    [{ operation: 'replayParked', after: { parked_id: 'p1' } }, 'done'],
  ]
  for (const [given, words] of cases) t.equal(changeOf(entry(given)), words)
})

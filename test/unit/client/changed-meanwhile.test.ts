/** What a person is told when someone else has changed something since it was read. */
import t from 'tap'
import { changedSettings, ifUnchanged } from '../../../src/apps/client/changed-meanwhile.ts'
import { ApiFailure } from '../../../src/apps/client/failure.ts'

const read = {
  pipe: { pipe_name: 'orders', pipe_description: 'mine' },
  limits: { pl_ingest_max_records_per_second: 5 },
  allowed_origins: [],
  destinations: [{ destination_name: 'shop' }],
  api_keys: [],
}

t.test('settings that differ, by name; what the service counts is left out', async (t) => {
  const present = {
    ...read,
    pipe: { ...read.pipe, pipe_description: 'theirs' },
    limits: null,
    destinations: [],
    api_keys: [{ api_key_name: 'x' }],
  }
  t.same(changedSettings(read, present), [
    { path: 'pipe.pipe_description', before: '"mine"', now: '"theirs"' },
    { path: 'limits', before: '{"pl_ingest_max_records_per_second":5}', now: 'null' },
  ])
  const lane = (seq: number) => ({ destination: { rate: null, lane: { cursor_seq: seq }, tls_pin: null } })
  t.same(changedSettings(lane(1), lane(2)), [])
  t.same(changedSettings(read, structuredClone(read)), [])
})

t.test(
  'a rejected change says what is different and what to do, with the exit code of a conflict',
  async (t) => {
    const present = { ...read, pipe: { ...read.pipe, pipe_description: 'theirs', pipe_status: 'paused' } }
    const rejected = new ApiFailure(412, { error: 'changed_meanwhile', message: 'Changed.', present }, null)
    const change = ifUnchanged('pipe orders', read, () => Promise.reject(rejected))
    await t.rejects(change, {
      name: 'Failure',
      exitCode: 5,
      message:
        'someone else has changed pipe orders in the meantime, and nothing was done:\n  pipe.pipe_description: "mine" → "theirs"\n  pipe.pipe_status: not set → "paused"',
      hint: /run the command again/,
    })
  },
)

t.test('other errors, and a resource that was deleted in the meantime, pass or have no list', async (t) => {
  const other = new ApiFailure(404, { error: 'pipe_not_found', message: 'No such pipe.' }, null)
  await t.rejects(
    ifUnchanged('pipe orders', read, () => Promise.reject(other)),
    { code: 'pipe_not_found' },
  )
  t.equal(await ifUnchanged('pipe orders', read, async () => 1), 1)
})

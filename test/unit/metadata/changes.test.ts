/** Changes: published after they are durable, handled by every subscriber before publishing resolves. */
import t from 'tap'
import { type Change, localChanges } from '../../../src/metadata/changes.ts'

t.test('publish resolves when every subscriber has handled the change', async (t) => {
  const changes = localChanges()
  const seen: Change[] = []
  let handle: () => void = () => {}
  const slow = new Promise<void>((resolve) => {
    handle = resolve
  })
  changes.subscribe(async (change) => void seen.push(change))
  changes.subscribe(() => slow)
  let isPublished = false
  const publishing = changes.publish({ pipeId: 'p' }).then(() => {
    isPublished = true
  })
  await new Promise((resolve) => setImmediate(resolve))
  t.strictSame(seen, [{ pipeId: 'p' }])
  t.notOk(isPublished)
  handle()
  await publishing
  t.ok(isPublished)
})

t.test(
  'a subscriber that fails fails the publisher, and the others have still seen the change',
  async (t) => {
    const changes = localChanges()
    const seen: Change[] = []
    changes.subscribe(async () => {
      throw new Error('no')
    })
    changes.subscribe(async (change) => void seen.push(change))
    await t.rejects(changes.publish({ apiKeyId: 'k', isRevoked: true }), { message: 'no' })
    t.strictSame(seen, [{ apiKeyId: 'k', isRevoked: true }])
  },
)

t.test('who has unsubscribed hears nothing more', async (t) => {
  const changes = localChanges()
  const seen: Change[] = []
  const unsubscribe = changes.subscribe(async (change) => void seen.push(change))
  await changes.publish({ apiKeyId: 'k', isRevoked: true })
  unsubscribe()
  await changes.publish({ apiKeyId: 'k', isRevoked: true })
  t.equal(seen.length, 1)
})

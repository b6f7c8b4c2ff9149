/** Who has one machine pays nothing for clusters: none of their code is loaded, in any thread. */
import { readFileSync } from 'node:fs'
import t from 'tap'

// The checkout, whose modules have files of their own: the bundled program has chunks.
delete process.env.TEST_PROGRAM
const { startDaemon } = await import('../../support/daemon.ts')

const ofClusters = /@nats-io|\/dist\/cluster\//

t.test('a daemon on one machine loads nothing of clusters', async (t) => {
  const file = `${t.testdir()}/loaded`
  const hooks = new URL('../../support/loaded-modules.mjs', import.meta.url).href
  const daemon = await startDaemon({
    env: { NODE_OPTIONS: `--import=${hooks}`, PIPECTL_TEST_LOADED: file, PIPECTL_INGEST_WORKERS: '2' },
  })
  t.teardown(() => daemon.close())
  const pipe = await daemon.createPipe({ pipe_name: 'orders' })
  await daemon.ingest(pipe, { a: 1 })
  t.equal((await daemon.api('GET', `/v1/pipes/${pipe}/messages`)).status, 200)
  const loaded = readFileSync(file, 'utf8').split('\n')
  for (const thread of [
    'daemon/daemon',
    'daemon/threads/delivery-thread',
    'daemon/threads/history-thread',
    'daemon/threads/ingest-thread',
  ])
    t.ok(
      loaded.some((url) => url.endsWith(`/dist/${thread}.js`)),
      `${thread} was seen`,
    )
  t.same(
    loaded.filter((url) => ofClusters.test(url)),
    [],
  )
})

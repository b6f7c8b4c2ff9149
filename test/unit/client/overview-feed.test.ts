/** Overviews one after the other, from a daemon that is away for a while, is started again, or is of an older version. */
import t from 'tap'
import { openClient } from '../../../src/apps/client/client.ts'
import { OverviewFeed } from '../../../src/apps/client/overview-feed.ts'
import type { SuccessBody } from '../../../src/contract/operations.ts'
import { cliEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { sharedDaemon } from '../../support/shared-daemon.ts'

t.test('each says what is known; a restart in between costs nothing but one whole response', async (t) => {
  const daemon = await sharedDaemon()
  t.teardown(() => daemon.close())
  await daemon.createPipe({ pipe_name: 'a' })
  const answers: string[] = []
  const feed = () => {
    const client = openClient({ url: daemon.url, apiKey: daemon.apiKey })
    const call: typeof client.call = async (id, ...given) => {
      const reply = await client.call(id, ...given)
      const { since, pipes } = reply.body as SuccessBody<'getOverview'>
      answers.push(since === null ? 'all' : pipes.map((one) => one.pipe_name).join())
      return reply
    }
    return new OverviewFeed({ url: client.url, call })
  }
  const known = feed()
  const names = async () => (await known.next()).pipes.map((pipe) => pipe.pipe_name)
  t.strictSame(await names(), ['a'])
  t.strictSame(await names(), ['a'])
  await daemon.createPipe({ pipe_name: 'b' })
  t.strictSame(await names(), ['a', 'b'])
  t.strictSame(answers, ['all', '', 'b'])
})

t.test('a daemon without an overview: what to do is said, by status and the feed', async (t) => {
  const older = await startHttpSink()
  const home = makeHome()
  t.teardown(async () => {
    removeHome(home)
    await older.stop()
  })
  older.respondWith(() => ({ status: 404, body: '{"error":"not_found","message":"There is nothing here."}' }))
  const feed = new OverviewFeed(openClient({ url: older.url, apiKey: 'ppl1_x' }))
  await t.rejects(feed.next(), {
    message: /is older than this pipectl/,
    hint: /start the daemon of this version/,
  })
  const env = { ...cliEnv({ url: older.url, apiKey: 'ppl1_x' }, home) }
  t.match(await runCli(['status'], { env }), {
    code: 1,
    stderr: /is older than this pipectl.*\n.*start the daemon/s,
  })
})

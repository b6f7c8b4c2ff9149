/**
 * The package's file for browsers on a page of another origin, in Chromium: its options, and results that a page can wait for.
 * test/browser/sender.test.ts and sender-faults.test.ts test the same code as the script of the daemon.
 */
import type { BrowserContext } from 'playwright-core'
import t from 'tap'
import { readSdk } from '../support/sdk.ts'
import { allOnce, dropped, kept, numbers, openShop, type SenderWindow, send } from '../support/shop.ts'
import { until } from '../support/until.ts'

interface ClientWindow extends SenderWindow {
  sender: SenderWindow['sender'] & {
    flush(): Promise<boolean>
    close(waitMs?: number): Promise<number>
    stats(): { pending: number; stored: number; dropped: number }
  }
  problems: { status: number; error: string; retryMs: number }[]
}
declare const window: ClientWindow

const shop = await openShop()
t.teardown(() => shop.close())
const sdk = `data:text/javascript;base64,${readSdk('dist/browser.js').toString('base64')}`

async function openPage(context: BrowserContext, options: Record<string, unknown>) {
  shop.serve(`<!doctype html><html lang="en"><title>Shop</title><script type="module">
    import { createClient } from '${sdk}'
    window.dropped = []
    window.problems = []
    window.sender = createClient({
      ...${JSON.stringify(options)},
      onDrop: (records, reason) => window.dropped.push({ records, reason }),
      onError: (problem) => window.problems.push(problem),
    })
  </script>`)
  const page = await context.newPage()
  await page.goto(`${shop.url}/own`)
  await page.waitForFunction(() => window.sender !== undefined)
  return page
}

async function makeKeyedPipe() {
  const pipe = await shop.makePipe({ pipe_api_key_required: true })
  const { body } = await shop.daemon.api<{ api_key: string }>('POST', '/v1/api-keys', {
    ...{ api_key_name: pipe.pipeId, api_key_scopes: ['ingest'], api_key_pipe_ids: [pipe.pipeId] },
  })
  return { ...pipe, options: { url: shop.daemon.dataUrl, pipe: pipe.pipeId, key: body.api_key } }
}

t.test('flush, stats and close tell the page what is stored', async (t) => {
  const { arrived, options } = await makeKeyedPipe()
  const context = await shop.browser.newContext()
  const page = await openPage(context, { ...options, batch: { maxRecords: 25, maxWaitMs: 60_000 } })
  await send(page, 0, 60)
  t.equal(await page.evaluate(() => window.sender.flush()), true)
  t.same(await page.evaluate(() => window.sender.stats()), { pending: 0, stored: 60, dropped: 0 })
  await context.setOffline(true)
  await send(page, 60, 90)
  t.equal(await page.evaluate(() => window.sender.flush()), false)
  t.match(await page.evaluate(() => window.problems), [{ status: 0, error: 'no_response' }])
  t.equal(await page.evaluate(() => window.sender.close(0)), 30, 'they stay in localStorage')
  t.equal(await kept(page), 2)
  t.equal(await page.evaluate(() => window.sender.send({ n: -1 })), false)
  t.same(await dropped(page), [{ reason: 'closed', numbers: [-1] }])
  await context.setOffline(false)
  const next = await openPage(context, options)
  await allOnce(t, next, arrived, numbers(0, 90))
  await context.close()
})

t.test(
  'offline in two tabs with a key, a reload of one, and the end of the other: each record once',
  async (t) => {
    const { arrived, options } = await makeKeyedPipe()
    const context = await shop.browser.newContext()
    const [left, right] = [await openPage(context, options), await openPage(context, options)]
    await context.setOffline(true)
    await Promise.all([send(left, 0, 130), send(right, 130, 260)])
    await until('an attempt has failed', () => right.evaluate(() => window.problems.length > 0))
    await left.close({ runBeforeUnload: true })
    await until('the tab is closed', () => left.isClosed())
    await context.setOffline(false)
    await right.reload()
    await right.waitForFunction(() => window.sender !== undefined)
    await send(right, 260, 270)
    await allOnce(t, right, arrived, numbers(0, 270))
    t.same(await dropped(right), [])
    await context.close()
  },
)

t.test('the last batches of a page that closes arrive without another page, also with a key', async (t) => {
  const { arrived, options } = await makeKeyedPipe()
  const context = await shop.browser.newContext()
  const page = await openPage(context, options)
  // With a key there is a preflight, which the closing page does not wait for.
  await send(page, 0, 1)
  await until('the preflight is known', async () => (await arrived()).length === 1)
  await send(page, 1, 120)
  await page.close({ runBeforeUnload: true })
  await until('they have arrived', async () => (await arrived()).length >= 120)
  const next = await openPage(context, options)
  await allOnce(t, next, arrived, numbers(0, 120))
  await context.close()
})

t.test('the queue has the limits of the page: the oldest are dropped and counted', async (t) => {
  const { arrived, options } = await makeKeyedPipe()
  const context = await shop.browser.newContext()
  const page = await openPage(context, { ...options, batch: { maxRecords: 10 }, queue: { maxRecords: 50 } })
  await context.setOffline(true)
  await send(page, 0, 200)
  const { pending, dropped: count } = await page.evaluate(() => window.sender.stats())
  t.ok(pending <= 60 && pending + count === 200, `${pending} pending, ${count} dropped`)
  const gone = (await dropped(page)).flatMap((one) => one.numbers)
  t.same([gone.length, (await dropped(page))[0]?.reason], [count, 'full'])
  await context.setOffline(false)
  await allOnce(
    t,
    page,
    arrived,
    numbers(0, 200).filter((n) => !gone.includes(n)),
  )
  await context.close()
})

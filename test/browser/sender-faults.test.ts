/** /v1/pipectl.js when something fails: the network, the daemon, the storage, the page. Each record arrives once, or is counted. */
import type { Route } from 'playwright-core'
import t from 'tap'
import {
  allOnce,
  dropped,
  kept,
  numbers,
  openShop,
  type SenderWindow,
  send,
  sorted,
} from '../support/shop.ts'
import { until } from '../support/until.ts'

const shop = await openShop()
t.teardown(() => shop.close())
declare const window: SenderWindow
declare const document: { addEventListener(name: string, run: () => void): void }

t.test('replies that are lost, and a reload while it waits for the next attempt', async (t) => {
  const { url, arrived } = await shop.makePipe()
  const context = await shop.browser.newContext()
  const page = await shop.openPage(context, url)
  let lost = 0
  const loseReply = async (route: Route) => {
    await route.fetch()
    lost++
    await route.abort()
  }
  await page.route('**/v1/ingest/**', loseReply)
  await send(page, 0, 50)
  await until('two replies are lost', () => lost >= 2)
  t.equal((await arrived()).length, 50, 'it is there all the same')
  await page.unroute('**/v1/ingest/**')
  await shop.load(page, url)
  await send(page, 50, 60)
  await allOnce(t, page, arrived, numbers(0, 60))
  await context.close()
})

t.test('the daemon is killed and started again', async (t) => {
  const { url, arrived } = await shop.makePipe()
  const context = await shop.browser.newContext()
  const page = await shop.openPage(context, url)
  await send(page, 0, 30)
  await until('they have arrived', async () => (await arrived()).length === 30)
  await shop.daemon.kill()
  await send(page, 30, 250)
  await page.waitForEvent('requestfailed')
  await shop.daemon.start()
  await allOnce(t, page, arrived, numbers(0, 250))
  await context.close()
})

for (const [what, spoil] of [
  ['a localStorage that others have filled', fillStorage],
  ['no localStorage at all', () => Object.defineProperty(window, 'localStorage', { get: noStorage })],
] as const) {
  t.test(`${what}: records are kept in memory, and arrive, also when the page ends`, async (t) => {
    const { url, arrived } = await shop.makePipe()
    const context = await shop.browser.newContext()
    await context.addInitScript(`${noStorage}\n${fillStorage}\n;(${spoil})()`)
    const page = await shop.openPage(context, url)
    await context.setOffline(true)
    await send(page, 0, 250)
    await page.waitForEvent('requestfailed')
    t.equal(await page.evaluate(() => window.sender.send({ n: 250 })), true)
    if (spoil === fillStorage) t.equal(await kept(page), 0)
    await context.setOffline(false)
    await until('all have arrived', async () => (await arrived()).length >= 251)
    await send(page, 251, 260)
    await page.goto('about:blank')
    await until('the last too', async () => (await arrived()).length >= 260)
    t.same(sorted(await arrived()), numbers(0, 260))
    await context.close()
  })
}

function noStorage(): never {
  throw new Error('SecurityError')
}

/** To the last character, but for what is there already. */
function fillStorage(): void {
  for (let length = 1 << 22; length >= 1; length >>= 1) {
    try {
      for (let i = 0; i < 4; i++) window.localStorage[`filled ${length} ${i}`] = 'x'.repeat(length)
    } catch {}
  }
}

t.test('two tabs, one of them closed while the daemon is away: each record once', async (t) => {
  const { url, arrived } = await shop.makePipe()
  const context = await shop.browser.newContext()
  const left = await shop.openPage(context, url)
  const right = await shop.openPage(context, url)
  await shop.daemon.kill()
  await Promise.all([send(left, 0, 130), send(right, 130, 260)])
  await left.waitForEvent('requestfailed')
  await left.close({ runBeforeUnload: true })
  await shop.daemon.start()
  await send(right, 260, 270)
  await allOnce(t, right, arrived, numbers(0, 270))
  await context.close()
})

t.test('what others have left under its names is passed over, and goes', async (t) => {
  const { url, arrived } = await shop.makePipe()
  const context = await shop.browser.newContext()
  const page = await context.newPage()
  const errors: Error[] = []
  page.on('pageerror', (error) => errors.push(error))
  await page.goto(shop.url)
  const planted = [
    '',
    '0',
    'no batch',
    'soon[{"n":0}]',
    '0[{"n":',
    '-1',
    '0[]',
    '[',
    '0{"n":0}',
    'Infinity[1]',
  ]
  planted.push(`0[${'['.repeat(10_000)}`, `${'9'.repeat(400)}[{"n":1}]`, '0[{"n":2}]')
  await page.evaluate(
    ({ url, planted }) => {
      planted.forEach((value, at) => {
        window.localStorage[`pipectl ${url} a${at}-1`] = value
      })
      window.localStorage[`pipectl ${url} a&x=#\u2028"`] = '0[{"n":]'
      window.localStorage[`pipectl ${url} __proto__`] = '0[{"__proto__":{"n":9}'
    },
    { url, planted },
  )
  await shop.load(page, url)
  await send(page, 3, 5)
  await allOnce(t, page, arrived, [0, 1, 2, 3, 4])
  t.same(errors, [])
  await context.close()
})

t.test('what is kept is bounded: the oldest go, and are counted', async (t) => {
  const { url, arrived } = await shop.makePipe()
  const context = await shop.browser.newContext()
  const page = await shop.openPage(context, url)
  await context.setOffline(true)
  await page.evaluate(() => {
    for (let n = 0; n < 150; n++) window.sender.send({ n, text: 'x'.repeat(10_000) })
  })
  const chars = await page.evaluate(() =>
    Object.entries(window.localStorage).reduce((sum, [, value]) => sum + value.length, 0),
  )
  t.ok(chars < 1_050_000 && chars > 950_000, `${chars} characters`)
  t.equal(await page.evaluate(() => window.sender.send({ text: 'x'.repeat(1_000_001) })), false)
  await until('that one is counted', async () =>
    (await dropped(page)).some(({ numbers }) => numbers[0] === null),
  )
  const told = await dropped(page)
  t.ok(told.every(({ reason }) => reason === 'full'))
  const gone = told.flatMap((one) => one.numbers.filter((n) => n !== null))
  // The first may be under way.
  t.ok(gone.length > 40 && gone.every((n) => Number(n) <= gone.length), 'the oldest')
  await context.setOffline(false)
  await allOnce(
    t,
    page,
    arrived,
    numbers(0, 150).filter((n) => !gone.includes(n)),
  )
  await context.close()
})

t.test(
  'after a day nobody can tell whether a beacon arrived: its records are dropped, not sent twice',
  async (t) => {
    const { url, arrived } = await shop.makePipe()
    const context = await shop.browser.newContext()
    const page = await context.newPage()
    await page.goto(shop.url)
    const leave = (hours: number, n: number) =>
      page.evaluate(
        ({ name, value }) => {
          window.localStorage[name] = value
        },
        { name: `pipectl ${url} a${n}-1`, value: `${-Date.now() + hours * 3_600_000}[{"n":${n}}]` },
      )
    await leave(24, 1)
    await leave(22, 2)
    await shop.load(page, url)
    await allOnce(t, page, arrived, [2])
    t.same(await dropped(page), [{ reason: 'expired', numbers: [1] }])
    await context.close()
  },
)

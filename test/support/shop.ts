/**
 * A site of another origin whose pages send records to the real daemon with /v1/pipectl.js, in Debian's Chromium. What has
 * arrived is counted on a pull lane, record by record.
 */
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import type { Test } from 'tap'
import { startDaemon, type TestDaemon } from './daemon.ts'
import { launchChromium } from './dashboard.ts'
import { freePort } from './free-port.ts'
import { until } from './until.ts'

export type SentRecord = Record<string, unknown>

/** The globals of the pages: the script's own, and those that `openPage` makes with it. */
export interface SenderWindow {
  sender: { send(record: object): boolean; flush(): void }
  dropped: { records: SentRecord[]; reason: string }[]
  localStorage: Record<string, string>
}
declare const window: SenderWindow

export interface PageOptions {
  key?: string
  /** The path of the page. */
  path?: string
}

export interface Shop {
  daemon: TestDaemon
  browser: Browser
  /** The URL of its pages. `/?referrer=none` has a Referrer-Policy. */
  url: string
  /** A pipe for its pages, and every record that has arrived in it. */
  makePipe(
    change?: Record<string, unknown>,
  ): Promise<{ pipeId: string; url: string; arrived(): Promise<SentRecord[]> }>
  openPage(context: BrowserContext, pipeUrl: string, options?: PageOptions): Promise<Page>
  /** Serves a page of the test's own, at `/own`. */
  serve(html: string): void
  load(page: Page, pipeUrl: string, options?: PageOptions): Promise<void>
  close(): Promise<void>
}

/** The daemon has a port that stays the same when it is started again. */
export async function openShop(): Promise<Shop> {
  const daemon = await startDaemon({ args: ['--listen', `127.0.0.1:${await freePort()}`] })
  const browser = await launchChromium()
  const script = await (await fetch(`${daemon.dataUrl}/v1/pipectl.js`)).text()
  const site = await openSite(daemon, `sha384-${createHash('sha384').update(script).digest('base64')}`)
  let made = 0
  const load: Shop['load'] = async (page, pipeUrl, { path = '/', ...options } = {}) => {
    await page.goto(`${site.url}${path}`)
    // As text: a loader of TypeScript may put calls of its own into functions that have names.
    await page.evaluate(`{
      dropped = []
      sender = pipectl('${pipeUrl}', { ...${JSON.stringify(options)}, onDrop: (records, reason) => dropped.push({ records, reason }) })
    }`)
  }
  return {
    ...{ daemon, browser, url: site.url, load, serve: site.serve },
    makePipe: (change) => makePipe(daemon, site.url, { pipe_name: `shop${made++}`, ...change }),
    openPage: async (context, pipeUrl, options) => {
      const page = await context.newPage()
      await load(page, pipeUrl, options)
      return page
    },
    close: async () => {
      await browser.close()
      site.close()
      await daemon.close()
    },
  }
}

/** Its pages' policy allows what docs/browser.md says, and nothing else. */
async function openSite(daemon: TestDaemon, integrity: string) {
  const tag = `<script src="${daemon.url}/v1/pipectl.js" integrity="${integrity}" crossorigin></script>`
  let own = ''
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost')
    if (pathname === '/own') {
      response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8' }).end(own)
      return
    }
    if (searchParams.has('referrer')) response.setHeader('Referrer-Policy', 'no-referrer')
    response.writeHead(pathname === '/' ? 200 : 404, {
      'Content-Type': 'text/html; charset=utf-8',
      'Content-Security-Policy': `default-src 'none'; script-src ${daemon.url}; connect-src ${daemon.url}`,
    })
    response.end(`<!doctype html><html lang="en"><meta charset="utf-8"><title>Shop</title>${tag}`)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()))
  return {
    url: `http://localhost:${(server.address() as AddressInfo).port}`,
    serve: (html: string) => {
      own = html
    },
    close: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

async function makePipe(daemon: TestDaemon, origin: string, pipe: Record<string, unknown>) {
  const pipeId = await daemon.createPipe({
    ...{ pipe_add_ingest_ts: false, pipe_api_key_required: false },
    ...pipe,
  })
  await daemon.api('POST', `/v1/pipes/${pipeId}/allowed-origins`, { origin_domain: origin })
  const arrived = await countArrivals(daemon, pipeId)
  return { pipeId, url: `${daemon.dataUrl}/v1/ingest/${pipeId}`, arrived }
}

/** Adds a pull lane to the pipe. The function returns every record that has arrived. */
export async function countArrivals(
  daemon: TestDaemon,
  pipeId: string,
): Promise<() => Promise<SentRecord[]>> {
  const lane = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  const seen: SentRecord[] = []
  return async () => {
    for (;;) {
      const { status, body } = await daemon.api<{ records: SentRecord[] }>(
        'GET',
        `/v1/pull/${lane}?wait_ms=0`,
      )
      if (status !== 200) return seen
      seen.push(...body.records)
    }
  }
}

/** Records `from` up to `to`, one call each. */
export function send(page: Page, from: number, to: number): Promise<void> {
  return page.evaluate(
    ({ from, to }) => {
      for (let n = from; n < to; n++) window.sender.send({ n })
    },
    { from, to },
  )
}

/** Batches in the page's localStorage. */
export function kept(page: Page): Promise<number> {
  return page.evaluate(
    () => Object.keys(window.localStorage).filter((name) => name.startsWith('pipectl ')).length,
  )
}

/** The drops that the page was notified of, as reasons with the numbers of the records. */
export function dropped(page: Page): Promise<{ reason: string; numbers: unknown[] }[]> {
  return page.evaluate(() =>
    window.dropped.map(({ reason, records }) => ({ reason, numbers: records.map(({ n }) => n ?? null) })),
  )
}

export function numbers(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => from + i)
}

export function sorted(records: readonly SentRecord[]): number[] {
  return records.map(({ n }) => Number(n)).sort((a, b) => a - b)
}

/** All of them, each once; and the page has forgotten them. */
export async function allOnce(
  t: Test,
  page: Page,
  arrived: () => Promise<SentRecord[]>,
  wanted: readonly number[],
): Promise<void> {
  await until(`${wanted.length} records have arrived`, async () => (await arrived()).length >= wanted.length)
  await until('nothing is kept any more', async () => (await kept(page)) === 0)
  t.same(sorted(await arrived()), wanted)
}

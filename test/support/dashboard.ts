/**
 * The dashboard as a person has it: Chromium on the pages of the real daemon. What the pages write to the console
 * is kept: a violation of the Content-Security-Policy, a script that failed, a request to another host each fail the test.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { type DaemonOptions, startDaemon, type TestDaemon } from './daemon.ts'
import { freePort } from './free-port.ts'
import { programFile } from './programs.ts'
import { until } from './until.ts'

export const password = 'correct horse battery'
/** The machine may be busy: this only ends a test that hangs. */
const timeoutMs = 60_000

export interface Visitor {
  page: Page
  context: BrowserContext
  /** Errors of the page since it was opened: scripts, the policy, requests elsewhere. */
  problems: string[]
  close(): Promise<void>
}

export interface Dashboard {
  daemon: TestDaemon
  /** The page of somebody who is signed in; null: of nobody. */
  visit(role: 'admin' | 'viewer' | null, options?: VisitOptions): Promise<Visitor>
  close(): Promise<void>
}

export interface VisitOptions {
  width?: number
  height?: number
  colourScheme?: 'light' | 'dark'
  /** Default: those of the machine. */
  locale?: string
  timezoneId?: string
}

/** On a port that stays the same when it is started again. */
export async function openDashboard(options: DaemonOptions = {}): Promise<Dashboard> {
  const port = await freePort()
  const daemon = await startDaemon({
    ...options,
    args: [...(options.args ?? []), '--listen', `127.0.0.1:${port}`],
  })
  const { visit, close } = await openDashboardOf(daemon)
  return {
    ...{ daemon, visit },
    close: async () => {
      await close()
      await daemon.close()
    },
  }
}

/** Opens the dashboard of a running daemon, which it does not close. */
export async function openDashboardOf(daemon: TestDaemon): Promise<Dashboard> {
  const browser = await launchChromium()
  for (const role of ['admin', 'viewer']) {
    const answer = await daemon.api('POST', '/v1/users', {
      ...{ user_email: `${role}@example.com`, user_role: role, password },
    })
    assert.equal(answer.status, 201, answer.text)
  }
  return {
    daemon,
    visit: (role, visitOptions) => visit(browser, daemon, role, visitOptions),
    close: () => browser.close(),
  }
}

async function visit(
  browser: Browser,
  daemon: TestDaemon,
  role: string | null,
  { width = 1440, height = 900, colourScheme = 'light', ...place }: VisitOptions = {},
): Promise<Visitor> {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: colourScheme,
    ...place,
  })
  context.setDefaultTimeout(timeoutMs)
  const page = await context.newPage()
  const problems: string[] = []
  page.on('pageerror', (error) => problems.push(`script: ${error.message}`))
  page.on('console', (message) => {
    // Chromium says of each response over 399, and of a daemon that is away, that it failed.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) {
      problems.push(message.text())
    }
  })
  page.on('request', (request) => {
    if (!request.url().startsWith(daemon.url)) problems.push(`request to ${request.url()}`)
  })
  await page.goto(`${daemon.url}/dashboard/`)
  if (role !== null) await signIn(page, `${role}@example.com`)
  return { page, context, problems, close: () => context.close() }
}

/** Fills the form that is there, on its page or in its dialog. */
export async function signIn(page: Page, email: string, given = password): Promise<void> {
  const field = page.locator('input[autocomplete="current-password"]')
  await page.getByLabel('E-mail').fill(email)
  await field.fill(given)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await field.waitFor({ state: 'detached' })
}

/** Chromium as root needs to be told that there is no sandbox. */
export async function launchChromium(): Promise<Browser> {
  const executablePath = programFile('chromium-headless-shell')
  return chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] })
}

/** Opens a page of the dashboard, and resolves when it has this heading and its data. */
export async function openPage(
  page: Page,
  url: string,
  heading: { name: string | RegExp; exact?: boolean },
): Promise<void> {
  await page.goto(url)
  await page.getByRole('heading', { ...heading, level: 1 }).waitFor()
  await loaded(page)
}

export async function loaded(page: Page): Promise<void> {
  await until('it is loaded', async () => (await page.getByRole('status', { name: 'Loading' }).count()) === 0)
}

/** Its source, to be run in a page. */
const axeFile = createRequire(import.meta.url).resolve('axe-core/axe.min.js')

interface Finding {
  id: string
  impact: string | null
  nodes: { html: string; failureSummary: string }[]
}

/**
 * The accessibility violations that axe-core finds: WCAG 2.2, levels A and AA. The window is as high as the page meanwhile: what
 * stays at its bottom covers a part of a field at most scroll positions, and axe would take that part for the whole target.
 */
export async function axeFindings(page: Page): Promise<string[]> {
  const size = page.viewportSize()
  const height = Number(await page.evaluate('document.documentElement.scrollHeight'))
  if (size !== null && height > size.height) await page.setViewportSize({ width: size.width, height })
  try {
    return await findingsOf(page)
  } finally {
    if (size !== null) await page.setViewportSize(size)
  }
}

async function findingsOf(page: Page): Promise<string[]> {
  await page.evaluate(readFileSync(axeFile, 'utf8'))
  const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
  // Passed checks would be collected too, with their markup.
  const options = JSON.stringify({ runOnly: tags, resultTypes: ['violations'] })
  const found: Finding[] = await page.evaluate(`axe.run(${options}).then((result) => result.violations)`)
  return found
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' | ')}`)
}

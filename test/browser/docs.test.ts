/** The guides as a person reads them: Chromium on the pages of the real daemon, wide and narrow, light and dark. */
import t from 'tap'
import { axeFindings, launchChromium } from '../support/dashboard.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'

const daemon = await sharedDaemon()
const browser = await launchChromium()
t.teardown(async () => {
  await browser.close()
  await daemon.close()
})

for (const { width, colorScheme } of [
  { width: 1440, colorScheme: 'light' },
  { width: 390, colorScheme: 'dark' },
] as const) {
  t.test(`pages with tables, lists, diagrams and long lines, ${width} px wide, ${colorScheme}`, async (t) => {
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme })
    const problems: string[] = []
    page.on('console', (message) => message.type() === 'error' && problems.push(message.text()))
    page.on('request', (one) => one.url().startsWith(`${daemon.url}/docs`) || problems.push(one.url()))
    for (const name of ['', 'concepts.html', 'cluster.html', 'ingest.html', 'monitoring/metrics.html']) {
      await page.goto(`${daemon.url}/docs/${name}`)
      t.same(await axeFindings(page), [], `${name}: no serious finding`)
      const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
      t.ok(Number(overflow) <= 0, `${name}: nothing beside the screen (${overflow} px)`)
      t.equal(await page.locator('nav#pages a').count(), await page.locator('nav#pages a[href]').count())
    }
    t.same(problems, [], 'nothing against the policy, nobody else was asked')
    await page.close()
  })
}

t.test('from page to page, to a section, and to what is not there', async (t) => {
  const page = await browser.newPage()
  await page.goto(`${daemon.url}/docs`)
  t.equal(page.url(), `${daemon.url}/docs/`)
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Concepts' }).click()
  await page.getByRole('heading', { name: 'Concepts', level: 1 }).waitFor()
  t.equal(await page.locator('nav#pages a[aria-current="page"]').textContent(), 'Concepts')
  await page.locator('a[rel="next"]').click()
  await page.locator('a[rel="prev"]').waitFor()
  t.not(page.url(), `${daemon.url}/docs/concepts.html`)

  await page.goto(`${daemon.url}/docs/ingest.html`)
  await page.setViewportSize({ width: 1440, height: 900 })
  t.notOk(await page.locator('.contents').isVisible())
  await page.getByRole('navigation', { name: 'On this page' }).getByRole('link', { name: 'Errors' }).click()
  t.match(page.url(), /ingest\.html#errors$/)
  await page.setViewportSize({ width: 900, height: 900 })
  await page.locator('.contents summary').click()
  await page.locator('.contents').getByRole('link', { name: 'Sending again' }).click()
  t.match(page.url(), /ingest\.html#sending-again$/)

  await page.goto(`${daemon.url}/docs/deep/down/none`)
  await page.getByRole('link', { name: 'All guides' }).click()
  await page.getByRole('heading', { name: 'Guides', level: 1 }).waitFor()
  await page.close()
})

t.test('with the keyboard: the first stop skips to the page, and long code can be scrolled', async (t) => {
  const page = await browser.newPage({ viewport: { width: 390, height: 700 } })
  await page.goto(`${daemon.url}/docs/concepts.html`)
  await page.keyboard.press('Tab')
  t.equal(await page.locator(':focus').textContent(), 'Skip to the page')
  await page.keyboard.press('Enter')
  t.match(page.url(), /#main$/)
  t.equal(await page.locator('pre').first().getAttribute('tabindex'), '0')
  await page.close()
})

t.test('the search finds sections, with the keyboard alone', async (t) => {
  for (const name of ['concepts.html', 'monitoring/metrics.html', 'deep/down/none']) {
    const page = await browser.newPage({ viewport: { width: 1440, height: 900 } })
    const problems: string[] = []
    page.on('pageerror', (error) => problems.push(error.message))
    await page.goto(`${daemon.url}/docs/${name}`)
    await page.keyboard.press('/')
    t.equal(await page.locator(':focus').getAttribute('id'), 'search', name)
    await page.keyboard.type('purge sealing key')
    const first = page.locator('#results a').first()
    await first.waitFor()
    t.equal(await first.locator('b').textContent(), 'Installing › Debian')
    t.ok((await first.locator('mark').count()) > 0)
    t.equal(
      await page.locator('#status').textContent(),
      `${await page.locator('#results a').count()} results`,
    )
    t.same(await axeFindings(page), [], 'no serious finding with results')
    // Nothing of the page lies over them. A click waits for that.
    await first.hover()
    await page.keyboard.press('ArrowDown')
    t.equal(await page.locator('#results a:focus').count(), 1)
    t.ok(await page.locator('#results li:first-child a:focus').isVisible())
    await page.keyboard.press('ArrowUp')
    await page.keyboard.press('Enter')
    await page.waitForURL(`${daemon.url}/docs/install.html#debian`)
    t.same(problems, [])
    await page.close()
  }
})

t.test(
  'the search says when it finds nothing; Escape closes it; / is a letter where text is typed',
  async (t) => {
    const page = await browser.newPage()
    await page.goto(`${daemon.url}/docs/`)
    const search = page.getByRole('searchbox', { name: 'Search the guides' })
    await search.click()
    await page.keyboard.type('/v1/ready')
    await page.locator('#results a').first().waitFor()
    t.equal(await search.inputValue(), '/v1/ready')
    await search.fill('xylophone <b>')
    await page.getByText('No section has these words.').waitFor()
    await page.keyboard.press('Escape')
    t.notOk(await page.locator('#results').isVisible())
    t.equal(await search.inputValue(), '')
    await page.close()
  },
)

t.test('a block of code is copied without its last line break; output has no button', async (t) => {
  const context = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'] })
  const page = await context.newPage()
  await page.goto(`${daemon.url}/docs/parked.html`)
  const block = page.locator('.code').first()
  await block.hover()
  await block.getByRole('button', { name: 'Copy' }).click()
  await block.getByRole('button', { name: 'Copied' }).waitFor()
  const text = String(await block.locator('code').textContent())
  t.equal(await page.evaluate('navigator.clipboard.readText()'), text.replace(/\n$/, ''))
  t.equal(await page.locator('pre:has(.language-output) ~ button').count(), 0)
  // As on a page that was loaded by plain HTTP from another machine.
  await page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
  const other = page.locator('.code').nth(1)
  await other.hover()
  await other.getByRole('button', { name: 'Copy' }).click()
  await other.getByRole('button', { name: 'Copied' }).waitFor()
  await context.close()
})

t.test('on a small screen the pages fold away, and open by a button', async (t) => {
  const page = await browser.newPage({ viewport: { width: 390, height: 800 } })
  await page.goto(`${daemon.url}/docs/cluster.html`)
  const pages = page.getByRole('navigation', { name: 'Pages' })
  t.notOk(await pages.isVisible())
  const button = page.getByRole('button', { name: 'All pages' })
  t.equal(await button.getAttribute('aria-expanded'), 'false')
  await button.click()
  t.equal(await button.getAttribute('aria-expanded'), 'true')
  t.same(await axeFindings(page), [], 'no serious finding with the menu open')
  await pages.getByRole('link', { name: 'TLS' }).click()
  await page.waitForURL(/tls\.html$/)
  t.notOk(await pages.isVisible())
  await page.close()
})

t.test('without JavaScript every page is complete, and shows nothing that does not work', async (t) => {
  for (const width of [1440, 390]) {
    const page = await browser.newPage({ javaScriptEnabled: false, viewport: { width, height: 800 } })
    await page.goto(`${daemon.url}/docs/ingest.html`)
    t.ok(await page.getByRole('heading', { name: 'Errors' }).isVisible())
    t.ok(await page.getByRole('navigation', { name: 'Pages' }).isVisible())
    for (const selector of ['.search', '.menu', '.copy'])
      t.notOk(await page.locator(selector).first().isVisible(), selector)
    if (width === 390) await page.getByRole('link', { name: 'All pages' }).click()
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Concepts' }).click()
    await page.waitForURL(/concepts\.html$/)
    await page.close()
  }
})

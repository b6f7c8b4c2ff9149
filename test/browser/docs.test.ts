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
    for (const name of ['', 'concepts.html', 'cluster.html', 'ingest.html', 'monitoring/']) {
      await page.goto(`${daemon.url}/docs/${name === 'monitoring/' ? 'monitoring/index.html' : name}`)
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
  await page.getByText('On this page').click()
  await page.locator('.contents').getByRole('link', { name: 'Errors' }).click()
  t.match(page.url(), /ingest\.html#errors$/)

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

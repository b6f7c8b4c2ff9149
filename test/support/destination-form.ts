/** The form of a destination in a browser, and what is stored of it. */
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import type { TestDaemon } from './daemon.ts'
import { axeFindings } from './dashboard.ts'
import { press } from './keyboard.ts'
import { until } from './until.ts'

interface Stored {
  destination_id: string
  destination_config: Record<string, unknown>
  transform: { filter: string | null; map: unknown[]; mask_salt?: string } | null
}
export async function storedOf(daemon: TestDaemon, pipeId: string): Promise<Stored> {
  const { body } = await daemon.api<{ destinations: Stored[] }>('GET', `/v1/pipes/${pipeId}`)
  if (body.destinations.length !== 1) throw new Error(`${body.destinations.length} destinations`)
  return body.destinations[0]!
}

export async function newForm(daemon: TestDaemon, page: Page, pipeId: string, kind: string): Promise<void> {
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/destinations/new`)
  // The summary of another type can have the same word.
  await page.getByRole('button', { name: new RegExp(`^${kind}`) }).waitFor()
  for (;;) {
    await page.keyboard.press('Tab')
    const text = String(await page.evaluate('document.activeElement.textContent'))
    if (text.startsWith(kind)) break
  }
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Test and save' }).waitFor()
}

/** Unfolds the settings of that title, by the keyboard, if they are folded. The focus is then at the title. */
export async function unfold(page: Page, title: string): Promise<void> {
  const begins = JSON.stringify(title)
  await page.locator('summary', { hasText: title }).waitFor()
  for (let stop = 0; stop < 150; stop += 1) {
    await page.keyboard.press('Tab')
    const state = await page.evaluate(`(() => {
      const one = document.activeElement
      if (!one.matches('summary') || !one.textContent.startsWith(${begins})) return null
      return one.parentElement.hasAttribute('open') ? 'open' : 'closed'
    })()`)
    if (state === 'closed') await page.keyboard.press('Enter')
    if (state !== null) return
  }
  throw new Error(`no way by Tab to ${title}`)
}

/** The form, from its top on. */
export const fromTop = (page: Page) =>
  page.evaluate(
    "document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')",
  )

/** By its label, which may have "(optional)" behind it. */
export const fieldOf = (page: Page, label: string) =>
  page.locator(`xpath=//label[.="${label}" or .="${label} (optional)"]/following-sibling::*[1]`).first()

/** The error text at the field. */
export async function errorAt(page: Page, label: string): Promise<string> {
  const field = fieldOf(page, label)
  await until(`${label} is marked`, async () => (await field.getAttribute('aria-invalid')) === 'true')
  const ids = (await field.getAttribute('aria-describedby')) ?? ''
  const id = ids.split(' ').find((one) => one.endsWith('-error'))
  return page.locator(`[id="${id}"]`).innerText()
}

/** Neither in what the page holds nor in what is in its fields. */
export async function isHidden(t: Test, page: Page, secret: string): Promise<void> {
  t.notOk((await page.content()).includes(secret), 'not in the page')
  const values = String(
    await page.evaluate(
      "[...document.querySelectorAll('input, textarea')].map((one) => one.value).join('\\n')",
    ),
  )
  t.notOk(values.includes(secret), 'not in its fields')
}

/** The lane's page, then that of changing it: axe finds nothing, and the secrets are in neither. */
export async function look(t: Test, page: Page, secrets: string[]): Promise<void> {
  await page.getByRole('heading', { name: 'Destination', exact: true }).waitFor()
  t.same(await axeFindings(page), [], 'the lane')
  for (const secret of secrets) await isHidden(t, page, secret)
  await press(page, 'Edit')
  await page.getByRole('button', { name: 'Test and save' }).waitFor()
  t.same(await axeFindings(page), [], 'the form')
  for (const secret of secrets) await isHidden(t, page, secret)
}

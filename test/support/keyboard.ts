/** A form filled in by the keyboard alone: Tab to what has the name, then type. */
import assert from 'node:assert/strict'
import type { Page } from 'playwright-core'

/** More than any page of the dashboard has places to stop at. */
const maxStops = 150

/** The name that a screen reader would give to the focused element: its label without "(optional)", or its own text. */
const nameOfFocused = `(() => {
  const one = document.activeElement
  const label = one.labels?.[0] ?? null
  const text = one.getAttribute('aria-label') ?? (label ?? one).textContent ?? ''
  return text.replace(' (optional)', '').trim().slice(0, 80)
})()`

/** Goes on with Tab until what has that name has the focus. `name` of a field with a hint in its label: how it begins. */
export async function tabTo(page: Page, name: string): Promise<void> {
  const passed: string[] = []
  for (let stop = 0; stop < maxStops; stop += 1) {
    await page.keyboard.press('Tab')
    const found = String(await page.evaluate(nameOfFocused))
    if (found === name) return
    passed.push(found)
  }
  assert.fail(`no way by Tab to ${name}: ${passed.join(' | ')}`)
}

/** Replaces what is in the field. Text of several lines is pasted, as a person would. */
export async function typeInto(page: Page, name: string, text: string): Promise<void> {
  await tabTo(page, name)
  await page.keyboard.press('Control+A')
  if (text === '') await page.keyboard.press('Delete')
  else if (text.includes('\n')) await page.keyboard.insertText(text)
  else await page.keyboard.type(text)
}

/** By the words of the option, typed. */
export async function choose(page: Page, name: string, words: string): Promise<void> {
  await tabTo(page, name)
  await page.keyboard.type(words)
}

export async function press(page: Page, name: string): Promise<void> {
  await tabTo(page, name)
  await page.keyboard.press('Enter')
}

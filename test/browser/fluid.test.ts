/**
 * How fluid the pages are with 500 pipes and 1,000 lanes: the intervals between frames while a page is scrolled and a
 * search is typed. The figures are printed and not compared, because they depend on the machine.
 */
import type { Page } from 'playwright-core'
import t from 'tap'
import { openDashboard } from '../support/dashboard.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
t.teardown(() => dashboard.close())
const pipes = 500

async function fill(): Promise<void> {
  let next = 1
  const worker = async () => {
    while (next <= pipes) {
      const number = next++
      const pipeId = await daemon.createPipe({ pipe_name: `pipe-${number}` })
      for (const name of ['one', 'two'])
        await daemon.createDestination(pipeId, {
          ...{ destination_type: 'destination_pull', destination_name: name },
          destination_config: { ack_mode: 'auto' },
        })
    }
  }
  await Promise.all(Array.from({ length: 6 }, worker))
}

/** Runs while the intervals between frames are recorded. In ms, from the shortest to the longest. */
async function framesDuring(page: Page, act: () => Promise<void>): Promise<number[]> {
  await page.evaluate(`
    globalThis.frames = []
    globalThis.recording = true
    const record = (last) => requestAnimationFrame((now) => {
      if (last !== null) frames.push(now - last)
      if (recording) record(now)
    })
    record(null)`)
  await act()
  return await page.evaluate<number[]>('recording = false, frames.sort((a, b) => a - b)')
}

function figures(name: string, frames: readonly number[]): string {
  const total = frames.reduce((sum, one) => sum + one, 0)
  const at = (share: number) =>
    frames[Math.min(frames.length - 1, Math.floor(frames.length * share))]?.toFixed(1)
  const rate = (1000 * frames.length) / total
  return `${name}: ${rate.toFixed(0)} frames/s, median ${at(0.5)} ms, p95 ${at(0.95)} ms, longest ${at(1)} ms`
}

t.test('scrolling and typing with 500 pipes and 1,000 lanes', async (t) => {
  await fill()
  const { page, problems, close } = await dashboard.visit('admin')
  const scroll = async () => {
    for (let step = 0; step < 40; step += 1) {
      await page.mouse.wheel(0, step < 20 ? 120 : -120)
      await page.evaluate('new Promise(requestAnimationFrame)')
    }
  }
  for (const [place, name] of [
    ['/', 'Overview'],
    ['/pipes', 'Pipes'],
    ['/lanes', 'Lanes'],
  ] as const) {
    await page.goto(`${daemon.url}/dashboard${place}`)
    await page.getByRole('heading', { name, level: 1 }).waitFor()
    await page.getByRole('table').first().waitFor()
    const scrolled = await framesDuring(page, scroll)
    t.ok(scrolled.length > 0)
    t.comment(figures(`${name}, scrolled`, scrolled))
    if (place === '/') continue
    const field = page.getByLabel('Search', { exact: true })
    const typed = await framesDuring(page, () => field.pressSequentially('pipe-499', { delay: 40 }))
    t.comment(figures(`${name}, typed`, typed))
    const rows = page.getByRole('table').locator('tbody tr')
    await until('it is found', async () => (await rows.count()) <= 2)
  }
  await page.keyboard.press('Control+k')
  await page.locator('[role="combobox"]:focus').waitFor()
  const typed = await framesDuring(page, () => page.keyboard.type('pipe-321/two', { delay: 40 }))
  t.comment(figures('palette, typed', typed))
  await page.getByRole('option', { name: /pipe-321\/two/ }).waitFor()
  t.ok((await page.getByRole('option').count()) <= 12, 'bounded')
  const { nodes } = await page.evaluate<{ nodes: number }>(
    '({ nodes: document.querySelectorAll("*").length })',
  )
  t.ok(nodes < 3_000, `${nodes} elements`)
  t.same(problems, [])
  await close()
})

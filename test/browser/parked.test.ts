/** Parked records in the browser: found, corrected, replayed, discarded; viewers look. */
import t from 'tap'
import { axeFindings, openDashboard } from '../support/dashboard.ts'
import { startParkingLane } from '../support/parking.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const lane = await startParkingLane(dashboard.daemon, 'orders')
t.teardown(async () => {
  await dashboard.close()
  await lane.sink.stop()
})
const bad = (n: number) => `{"n":${n},"bad":true,"big":12345678901234567890,"price":1.10}`
await lane.send(...[1, 2, 3, 4, 5].map(bad))
const left = async () => (await lane.parked()).length

t.test('a viewer finds what is parked and can change nothing', async (t) => {
  const { page, problems, close } = await dashboard.visit('viewer')
  await page.getByText('has 5 parked records.').waitFor()
  t.same(await axeFindings(page), [])
  await page.getByRole('link', { name: '5 parked' }).click()
  await page.getByRole('heading', { name: 'Parked records', level: 1 }).waitFor()
  await page.getByLabel('All on this page').check()
  for (const name of [/^Replay 5 records/, /^Discard …/, /^Replay all …/])
    t.ok(await page.getByRole('button', { name }).isDisabled(), String(name))
  await page.getByRole('link', { name: /#0$/ }).click()
  t.notOk(await page.getByLabel('JSON').isEditable())
  t.ok(await page.getByRole('button', { name: 'Replay' }).isDisabled())
  t.same(problems, [])
  await close()
})

t.test('from the pipe to the record: corrected with the line at fault named, diffed, stored', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(`${dashboard.daemon.url}/dashboard/pipes/${lane.pipeId}`)
  await page.getByRole('link', { name: '5 parked' }).click()
  await page.getByLabel('Error code').fill('none')
  await page.getByText('No record matches the filter.').waitFor()
  await page.getByLabel('Error code').fill('http_422')
  await page.getByLabel('Reason').selectOption('skipped')
  await page.getByText('No record matches the filter.').waitFor()
  await page.getByLabel('Reason').selectOption('permanent_error')
  await page.getByRole('button', { name: 'Replay all that match …' }).click()
  const replayAll = page.getByRole('dialog', { name: 'Replay all rejected records with the error http_422?' })
  t.match(
    await replayAll.textContent(),
    /parked replay orders\S* --error-code http_422 --reason permanent_error/,
  )
  await page.keyboard.press('Escape')
  const { searchParams } = new URL(page.url())
  t.same([searchParams.get('code'), searchParams.get('reason')], ['http_422', 'permanent_error'])
  await page.getByRole('link', { name: /#0$/ }).click()
  const editor = page.getByLabel('JSON')
  const text = await editor.inputValue()
  t.match(text, /"big": 12345678901234567890,\n {2}"price": 1\.10/)

  await page.getByRole('button', { name: 'Replay', exact: true }).click()
  await page.getByText(/^Failed again: .*http_422/).waitFor()
  await editor.fill(text.replace('true,', 'true'))
  await page.getByText('Line 4, column 3: expected , or }').waitFor()
  t.ok(await page.getByRole('button', { name: 'Replay with changes' }).isDisabled())
  await page.getByRole('button', { name: 'Go to it' }).click()
  t.equal(
    await page.evaluate(
      'document.activeElement.value.slice(document.activeElement.selectionStart).slice(0, 5)',
    ),
    '"big"',
  )
  await page.getByRole('button', { name: 'Restore the stored text' }).click()
  t.equal(await editor.inputValue(), text)
  await editor.fill(text.replace('"bad"', '"good"'))
  await page.getByRole('button', { name: 'Replay with changes' }).click()
  const dialog = page.getByRole('dialog')
  t.match(await dialog.innerText(), /"bad": true,[\s\S]*"good": true,/)
  await dialog.getByRole('button', { name: 'Replay', exact: true }).click()
  await page.getByText('Stored: the destination accepted it.').waitFor()
  t.ok(lane.taken().includes(bad(1).replace('"bad"', '"good"')), 'every digit arrived')
  await page.getByRole('link', { name: 'Go to the parked records' }).click()
  const boxes = page.getByRole('table', { name: 'Parked records' }).getByRole('checkbox')
  // The list of before, with the one that is stored now, is shown until the new one is here.
  await boxes.nth(4).waitFor({ state: 'detached' })
  await boxes.nth(3).waitFor()
  t.equal(await boxes.count(), 4)
  t.same(problems, [])
  await close()
})

t.test('several at once: discarded after a question, replayed, replayed all', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(
    `${dashboard.daemon.url}/dashboard/pipes/${lane.pipeId}/destinations/${lane.destinationId}/parked`,
  )
  const boxes = page.getByRole('table', { name: 'Parked records' }).getByRole('checkbox')
  await boxes.first().check()
  await page.getByRole('button', { name: 'Discard …' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Discard 1 record' }).click()
  await until('it is discarded', async () => (await left()) === 3)
  await until('its line is gone', async () => (await boxes.count()) === 3)

  lane.sink.respondWith(() => ({ status: 200 }))
  await boxes.nth(0).check()
  await boxes.nth(1).check()
  await page.getByRole('button', { name: 'Replay 2 records' }).click()
  await until('both are stored', async () => (await left()) === 1)
  await page.getByRole('button', { name: 'Replay all …' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Replay all' }).click()
  await page.getByText('Nothing is parked').waitFor()
  t.equal(await left(), 0)
  t.same(problems, [])
  await close()
})

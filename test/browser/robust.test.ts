/** The daemon goes and comes back, two people change the same thing, something is deleted under an open page. */
import t from 'tap'
import { openDashboard, signIn } from '../support/dashboard.ts'
import { until } from '../support/until.ts'

const dashboard = await openDashboard()
const { daemon } = dashboard
t.teardown(() => dashboard.close())

t.test('the daemon away and back: said at once, and no form is lost', async (t) => {
  const { page, problems, close } = await dashboard.visit('admin')
  await page.getByRole('link', { name: 'New pipe' }).click()
  await page.getByLabel('Name').fill('typed-before')
  await daemon.kill()
  await page.getByText('pipectl is not responding. Retrying').waitFor()
  await page.getByLabel('Description').fill('typed while it was away')
  await page.getByRole('button', { name: 'Create pipe' }).click()
  await page.getByText('Nothing you typed is lost: try again').waitFor()
  await daemon.start()
  await page.getByText('pipectl is not responding. Retrying').waitFor({ state: 'detached' })
  if (await page.getByRole('dialog').isVisible()) await signIn(page, 'admin@example.com')
  t.equal(await page.getByLabel('Description').inputValue(), 'typed while it was away')
  await page.getByRole('button', { name: 'Create pipe' }).click()
  await page.getByRole('heading', { name: 'typed-before', level: 1 }).waitFor()
  t.same(problems, [])
  await close()
})

t.test('a draft is there again after a look at another page', async (t) => {
  const { page, close } = await dashboard.visit('admin')
  await page.getByRole('link', { name: 'New pipe' }).click()
  await page.getByLabel('Name').fill('half-typed')
  await page.getByRole('link', { name: 'API keys' }).click()
  await page.getByRole('link', { name: 'Overview' }).click()
  await page.getByRole('link', { name: 'New pipe' }).click()
  t.equal(await page.getByLabel('Name').inputValue(), 'half-typed')
  await close()
})

t.test('the second of two users who save a destination sees what is stored now, and decides', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'shared' })
  const id = await daemon.createDestination(pipeId, {
    ...{ destination_type: 'destination_pull', destination_config: { ack_mode: 'auto' } },
  })
  const stored = async () =>
    (
      await daemon.api<{ destination: Record<string, unknown> }>(
        'GET',
        `/v1/pipes/${pipeId}/destinations/${id}`,
      )
    ).body.destination
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/destinations/${id}/edit`)
  await page.getByLabel('Name (optional)').fill('mine')
  await daemon.api('PATCH', `/v1/pipes/${pipeId}/destinations/${id}`, { destination_name: 'theirs' })
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('Another user changed this after you opened the form.').waitFor()
  await page.getByText('destination_name: "theirs" (it was "pull")').waitFor()
  t.equal((await stored()).destination_name, 'theirs', 'nothing is overwritten unasked')
  t.equal(await page.getByLabel('Name (optional)').inputValue(), 'mine', 'what was typed stays')
  const top = (await page.getByText('Another user changed this').boundingBox())?.y ?? -1
  t.ok(top >= 0 && top < 900, 'the notice is in view, however long the form is')
  await page.getByRole('button', { name: 'Save mine' }).click()
  await page.getByRole('heading', { name: 'mine', level: 1 }).waitFor()
  t.equal((await stored()).destination_name, 'mine')
  t.same(problems, [])
  await close()
})

t.test('a change that comes while the conflict is shown is not overwritten either', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'contested' })
  const { page, close } = await dashboard.visit('admin')
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/settings`)
  await page.getByLabel('Description').fill('mine')
  await daemon.api('PATCH', `/v1/pipes/${pipeId}`, { pipe_description: 'theirs' })
  const stored = async () =>
    (await daemon.api<{ pipe: { pipe_description: string } }>('GET', `/v1/pipes/${pipeId}`)).body.pipe
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('pipe_description: "theirs" (it was "")').waitFor()
  await daemon.api('PATCH', `/v1/pipes/${pipeId}`, { pipe_description: 'theirs again' })
  await page.getByRole('button', { name: 'Save mine' }).click()
  await page.getByText('pipe_description: "theirs again" (it was "")').waitFor()
  t.equal((await stored()).pipe_description, 'theirs again')
  await page.getByRole('button', { name: 'Save mine' }).click()
  await until('mine is saved', async () => (await stored()).pipe_description === 'mine')
  await close()
})

t.test('a change of another part of the pipe is no conflict, and is kept', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'in-parts' })
  const { page, problems, close } = await dashboard.visit('admin')
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/settings`)
  await page.getByLabel('Description').fill('mine')
  await page.getByRole('button', { name: 'Set limits' }).click()
  await page.getByRole('button', { name: 'Save limits' }).click()
  await page.getByText('Limits of in-parts saved.').waitFor()
  await daemon.api('PATCH', `/v1/pipes/${pipeId}`, { pipe_status: 'paused' })
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByText('Pipe in-parts updated.').waitFor()
  const { body } = await daemon.api('GET', `/v1/pipes/${pipeId}`)
  t.match(body, {
    pipe: { pipe_description: 'mine', pipe_status: 'paused' },
    limits: { pl_ingest_max_records_per_second: 10_000 },
  })
  t.same(problems, [])
  await close()
})

t.test('the second of two users who save a pipe can use what is stored', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'described' })
  const { page, close } = await dashboard.visit('admin')
  await page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/settings`)
  await page.getByLabel('Description').fill('mine')
  await daemon.api('PATCH', `/v1/pipes/${pipeId}`, { pipe_description: 'theirs' })
  await page.getByRole('button', { name: 'Save', exact: true }).click()
  await page.getByRole('button', { name: 'Use the stored values' }).click()
  await page.getByText('Another user changed this').waitFor({ state: 'detached' })
  t.equal(await page.getByLabel('Description').inputValue(), 'theirs')
  await close()
})

t.test('a pipe that is deleted under an open page is said to be gone; what was typed stays', async (t) => {
  const pipeId = await daemon.createPipe({ pipe_name: 'short-lived' })
  const [looking, typing] = [await dashboard.visit('admin'), await dashboard.visit('admin')]
  await looking.page.goto(`${daemon.url}/dashboard/pipes/${pipeId}`)
  await looking.page.getByRole('heading', { name: 'short-lived', level: 1 }).waitFor()
  await typing.page.goto(`${daemon.url}/dashboard/pipes/${pipeId}/settings`)
  await typing.page.getByLabel('Description').fill('still typing')
  await daemon.api('DELETE', `/v1/pipes/${pipeId}`)
  await looking.page.getByRole('heading', { name: 'This pipe does not exist' }).waitFor()
  await typing.page.getByText('Another user deleted this pipe').waitFor()
  t.equal(await typing.page.getByLabel('Description').inputValue(), 'still typing')
  t.same([...looking.problems, ...typing.problems], [])
  await looking.close()
  await typing.close()
})

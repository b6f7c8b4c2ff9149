/** The dashboard of a node: who is there, who delivers how much, and that one is lost. */
import t from 'tap'
import { startCluster, type TestNode } from '../support/cluster.ts'
import { axeFindings, openDashboardOf } from '../support/dashboard.ts'
import { until } from '../support/until.ts'

const cluster = await startCluster({ nodes: 2 })
t.teardown(() => cluster.close())
const [a, b] = cluster.nodes as [TestNode, TestNode]
for (let at = 0; at < 6; at += 1) await a.createPipe({ pipe_name: `pipe-${at}` })
const dashboard = await openDashboardOf(a)
t.teardown(() => dashboard.close())

t.test(
  'the page of the service lists the nodes; one that is lost is said there and on the overview',
  async (t) => {
    const { page, problems, close } = await dashboard.visit('admin')
    t.teardown(close)
    await page.getByRole('link', { name: 'Service' }).click()
    const nodes = page.getByRole('table', { name: 'Nodes' })
    await nodes.waitFor()
    const rows = async () =>
      (await nodes.getByRole('row').allInnerTexts()).map((row) => row.replaceAll(/\s+/g, ' ').trim())
    await until('all pipes have a node', async () => {
      const pipes = (await rows()).slice(1).map((row) => Number(row.split(' ').at(-1)))
      return pipes.reduce((sum, one) => sum + one, 0) === 6
    })
    t.match(await rows(), [/^Node State Pipes$/i, /^a serves this page ●? ?live \d$/, /^b ●? ?live \d$/])
    t.match(await page.getByRole('heading', { level: 2 }).allInnerTexts(), ['Cluster', 'This node'])
    t.same(await axeFindings(page), [])

    await b.kill()
    await page.getByText(/^b: expired/).waitFor()
    await until('its pipes are with the other', async () => / 6$/.test((await rows())[1] ?? ''))
    t.match((await rows())[2], /^b ■? ?expired 0$/)
    if (process.env.SCREENSHOT !== undefined) await page.screenshot({ path: process.env.SCREENSHOT })
    await page.setViewportSize({ width: 390, height: 844 })
    t.same(await axeFindings(page), [])
    await page.setViewportSize({ width: 1440, height: 900 })
    await page.getByRole('link', { name: 'Overview' }).click()
    await page.getByRole('link', { name: '1 node expired' }).click()
    await nodes.waitFor()
    t.same(problems, [])
  },
)

/** The budget of a workspace for management requests (docs/dev/contract.md#budget-of-a-workspace). */
import t from 'tap'
import { ManagementBudget } from '../../../src/api/http/management-budget.ts'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'

const { managementMsAtOnce, managementMsPerSecond, managementMsPerRequest } = resourceLimits
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

t.test(
  'a workspace that used up its time gets 429 until it has some again; others do not notice',
  async (t) => {
    let now = 0
    const budget = new ManagementBudget(() => now)
    budget.require('busy')
    budget.meter('busy')()
    now += managementMsAtOnce + 3_000
    await turn()
    t.throws(() => budget.require('busy'), {
      code: 'too_many_requests',
      headers: { 'Retry-After': String(Math.ceil(3_000 / managementMsPerSecond)) },
    })
    budget.require('quiet')
    now += (3_000 / managementMsPerSecond) * 1_000
    budget.require('busy')
  },
)

t.test('a request counts once per turn, with a minimum for the first', async (t) => {
  let now = 0
  const budget = new ManagementBudget(() => now)
  const requests = managementMsAtOnce / managementMsPerRequest
  for (let index = 0; index <= requests; index += 1) {
    budget.require('a')
    const charge = budget.meter('a')
    charge()
    charge()
    await turn()
  }
  t.throws(() => budget.require('a'), { code: 'too_many_requests' })
  now += 10_000
  budget.require('a')
})

t.test('awaits that need no other turn are part of the turn that is charged', async (t) => {
  let now = 0
  const budget = new ManagementBudget(() => now)
  const handler = async () => {
    await null
    await null
    now += managementMsAtOnce + 1_000
  }
  budget.meter('a')()
  await handler()
  await turn()
  t.throws(() => budget.require('a'), { code: 'too_many_requests' })
})

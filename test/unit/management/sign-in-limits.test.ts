import t from 'tap'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import { SignInLimits } from '../../../src/management/sign-in-limits.ts'

const { signInsPerAccount, signInsPerAddress, signInWindowSeconds } = resourceLimits
const tooMany = { code: 'too_many_attempts' }

t.test('an account takes ten failures from wherever they come, until its window is over', async (t) => {
  let now = 0
  const limits = new SignInLimits(() => now)
  for (let n = 0; n < signInsPerAccount; n += 1) limits.begin('ada', `address ${n}`)
  now = 60_000
  t.throws(() => limits.begin('ada', 'another'), {
    ...tooMany,
    headers: { 'Retry-After': String(signInWindowSeconds - 60) },
  })
  limits.begin('bob', 'another')
  now = signInWindowSeconds * 1_000
  limits.begin('ada', 'another')
})

t.test('an address takes thirty, whatever the account', async (t) => {
  let now = 0
  const limits = new SignInLimits(() => now)
  for (let n = 0; n < signInsPerAddress; n += 1) limits.begin(`account ${n}`, 'address')
  t.throws(() => limits.begin('new', 'address'), tooMany)
  limits.begin('new', 'another address')
  limits.begin('new', null)
  now = signInWindowSeconds * 1_000
  limits.begin('new', 'address')
})

t.test('an attempt that succeeds does not count', async (t) => {
  const limits = new SignInLimits(() => 0)
  for (let n = 0; n < 10 * signInsPerAddress; n += 1) limits.begin('ada', 'address')()
  for (let n = 0; n < signInsPerAccount; n += 1) limits.begin('ada', 'address')
  t.throws(() => limits.begin('ada', 'address'), tooMany)
})

t.test('an attempt that is refused does not lengthen the wait', async (t) => {
  let now = 0
  const limits = new SignInLimits(() => now)
  for (let n = 0; n < signInsPerAccount; n += 1) limits.begin('ada', 'address')
  for (; now < signInWindowSeconds * 1_000; now += 10_000)
    t.throws(() => limits.begin('ada', 'address'), tooMany)
  limits.begin('ada', 'address')
})

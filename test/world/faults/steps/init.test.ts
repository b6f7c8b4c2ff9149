/** `pipectl init` whose disk fails or is full, or that is killed, at any step: the next one continues. */
import { testSteps } from '../step-tests.ts'

testSteps('init')

/** `pipectl backup` whose disk fails or is full, or that is killed, at any step: the next one continues, and nothing acknowledged is lost. */
import { testSteps } from '../step-tests.ts'

testSteps('backup')

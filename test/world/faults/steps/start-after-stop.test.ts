/** The start of a buffer that was closed in order, with a fault at any step: the next one continues, and nothing acknowledged is lost. */
import { testSteps } from '../step-tests.ts'

testSteps('start after stop')

-- For tests: the time of everything that is decided here is given by the caller. Keys must not
-- expire by another clock, so they do so in thousands of years; to the millisecond where it should
-- be a microsecond, so that a test can tell when.
local now = tonumber(ARGV[2])
local FAR_AWAY = 1e15

local function keep(key, was, state, micros)
  local at = format('%.0f', FAR_AWAY + now + micros)
  if not was then return call('SET', key, state, 'PXAT', at, 'NX') end
  return call('SET', key, state, 'PXAT', at)
end

-- Fixed window. State: the window's end, the count in it, and the count that is stored there, unless
-- that belongs to another window.
-- Rule: kind, limit, window, scale, whether denied requests count, a cost and its remainder, and for
-- a calendar the ends of this window and the next ones.
--
-- Stored as one integer, index of the window * scale + count, which INCRBY adds to: no other write
-- is as cheap, and the time to live stays as it is. A state that does not fit is packed.
local function fixed_window()
  local it = {}

  function it.read(rule, raw)
    local number = whole(raw)
    if number then
      local scale = rule[4]
      local index = floor(number / scale)
      local count = number - index * scale
      return index * rule[3], count, count
    end
    if #raw ~= 15 then return nil end
    local tag, finish, count = parse('>c1I7I7', raw)
    if tag == 'w' then return finish, count end
  end

  -- When the window that contains `now` ends. The caller knows about calendars.
  local function end_of(rule, now)
    local window = rule[3]
    if #rule == 7 then return floor(now / window) * window + window end
    for i = 8, #rule do
      if rule[i] > now then return rule[i] end
    end
    return now + window
  end

  local function up_to(rule, now, finish, count, stored)
    if finish <= now then return end_of(rule, now), 0 end
    -- The clock went back to before the window began: the count stays for a whole window.
    if finish > now + rule[3] then return now + rule[3], count end
    return finish, count, stored
  end

  function it.take(rule, now, finish, count, stored, cost)
    finish, count, stored = up_to(rule, now, finish, count, stored)
    count = count + cost
    return count <= rule[2], finish, count, stored
  end

  function it.deny(rule, now, finish, count, stored, cost)
    if rule[5] == 1 and cost <= rule[2] then
      finish, count, stored = up_to(rule, now, finish, count, stored)
      return true, finish, min(count + cost, 2e15), stored
    end
    if finish > now + rule[3] then return true, up_to(rule, now, finish, count) end
  end

  function it.give(rule, now, finish, count, stored, amount)
    finish, count, stored = up_to(rule, now, finish, count, stored)
    return true, finish, max(0, count - amount), stored
  end

  function it.write(key, rule, now, raw, finish, count, stored)
    local scale = rule[4]
    if stored and count < scale then return call('INCRBY', key, count - stored) end
    local index = finish / rule[3]
    local number = index * scale + count
    if index ~= floor(index) or count >= scale or number > LARGEST then
      return keep(key, raw, pack('>c1I7I7', 'w', finish, count), finish - now)
    end
    return keep(key, raw, format('%.0f', number), finish - now)
  end

  return it
end
